import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore
import Synchronization

/// A part of the measurement, in which a number of connections each send one push after another.
struct BenchStage: Sendable {
    let name: String
    let connections: Int
    /// The number of mutations in a push.
    let mutations: Int
    let seconds: Double

    /// Returns the stages of a measurement that takes `seconds` in total.
    ///
    /// One push at a time shows the latency, and many concurrent pushes show the rate with group commit. Large pushes
    /// show the rate at which devices synchronize after they were offline.
    static func all(seconds: Int, connections: Int, maximumMutations: Int) -> [BenchStage] {
        let seconds = Double(seconds)
        return [
            BenchStage(name: "single", connections: 1, mutations: 1, seconds: 0.25 * seconds),
            BenchStage(name: "concurrent", connections: connections, mutations: 1, seconds: 0.45 * seconds),
            BenchStage(
                name: "batches",
                connections: max(1, connections / 2),
                mutations: min(50, maximumMutations),
                seconds: 0.3 * seconds
            ),
        ]
    }
}

/// The results of a stage's pushes.
struct BenchTally: Sendable {
    /// The duration of each push that was accepted completely, in microseconds.
    var latencies: [Int32] = []
    var mutations = 0
    /// The number of refused pushes by the problem's code; `internalError` also counts pushes in which a mutation did
    /// not take effect.
    var refusals: [ProblemCode: Int] = [:]
    /// The measured time in seconds.
    var seconds = 0.0

    var refused: Int { refusals.values.reduce(0, +) }
    var rate: Double { Double(mutations) / max(seconds, 1e-9) }

    static func += (tally: inout BenchTally, other: BenchTally) {
        tally.latencies += other.latencies
        tally.mutations += other.mutations
        tally.refusals.merge(other.refusals, uniquingKeysWith: +)
    }

    /// The duration in milliseconds within which the given share of the pushes was complete; nil if there are no
    /// pushes.
    ///
    /// - Parameter sorted: the sorted latencies.
    static func percentile(_ share: Double, of sorted: [Int32]) -> Double? {
        guard !sorted.isEmpty else { return nil }
        let place = Int((Double(sorted.count) * share).rounded(.up)) - 1
        return Double(sorted[min(max(place, 0), sorted.count - 1)]) / 1_000
    }
}

/// Pushes to the temporary organizations through the engine, as the push endpoint does after it has checked HTTP and
/// tokens.
final class BenchLoad: Sendable {
    /// The maximum number of mutations of a stage. Three stages take about 2 GB in tables and indexes.
    static let maximumMutations = 333_000
    /// The minimum number of users of an organization.
    private static let usersPerOrganization = 10

    private let store: Store
    private let limits: IntakeLimits
    private let clients: Mutex<[BenchClient]>
    /// The number of mutations that the stage may still push.
    private let left = Atomic(maximumMutations)

    /// The number of mutations that the stage has pushed.
    var pushed: Int { Self.maximumMutations - left.load(ordering: .relaxed) }

    init(_ store: Store, organizations: [Organization], connections: Int, limits: IntakeLimits) {
        self.store = store
        self.limits = limits
        let users = max(Self.usersPerOrganization * organizations.count, connections)
        var clients = (0..<connections).map { _ in BenchClient() }
        for index in 0..<users {
            let (number, place) = index.quotientAndRemainder(dividingBy: organizations.count)
            clients[index % connections].devices.append(
                BenchDevice(
                    organization: organizations[place],
                    user: BenchTenants.user(UInt16(number), of: organizations[place].id)
                )
            )
        }
        self.clients = Mutex(clients)
    }

    /// Pushes once from each device, which creates its lane; later pushes are measured without this cost.
    ///
    /// - Throws: the problem of a refused push, or a cancellation.
    func prepare() async throws {
        let clients = clients.withLock { $0 }
        let prepared = try await withThrowingTaskGroup(of: (Int, BenchClient).self) { group in
            for (index, client) in clients.enumerated() {
                group.addTask {
                    var client = client
                    for _ in client.devices {
                        try Task.checkCancellation()
                        _ = try await self.push(1, by: &client)
                    }
                    return (index, client)
                }
            }
            return try await group.reduce(into: clients) { $0[$1.0] = $1.1 }
        }
        self.clients.withLock { $0 = prepared }
    }

    /// Pushes until the stage's time is over, the task is cancelled, or the maximum of mutations is reached.
    func run(_ stage: BenchStage) async -> BenchTally {
        let clients = clients.withLock { Array($0.prefix(stage.connections)) }
        left.store(Self.maximumMutations, ordering: .relaxed)
        let start = ContinuousClock.now
        let end = start + .seconds(stage.seconds)
        var tally = await withTaskGroup(of: (Int, BenchClient, BenchTally).self) { group in
            for (index, client) in clients.enumerated() {
                group.addTask {
                    var client = client
                    let tally = await self.pushRepeatedly(stage.mutations, by: &client, until: end)
                    return (index, client, tally)
                }
            }
            var sum = BenchTally()
            for await (index, client, tally) in group {
                self.clients.withLock { $0[index] = client }
                sum += tally
            }
            return sum
        }
        tally.seconds = (.now - start) / .seconds(1)
        return tally
    }

    private func pushRepeatedly(
        _ mutations: Int,
        by client: inout BenchClient,
        until end: ContinuousClock.Instant
    ) async -> BenchTally {
        var tally = BenchTally()
        while .now < end, !Task.isCancelled {
            guard left.subtract(mutations, ordering: .relaxed).newValue >= 0 else {
                left.add(mutations, ordering: .relaxed)
                break
            }
            let start = ContinuousClock.now
            do throws(Problem) {
                guard try await push(mutations, by: &client) else {
                    tally.refusals[.internalError, default: 0] += 1
                    continue
                }
                tally.latencies.append(Int32(clamping: Int((.now - start) / .microseconds(1))))
                tally.mutations += mutations
            } catch {
                tally.refusals[error.code, default: 0] += 1
                // an unavailable database refuses a push immediately, so the next push is delayed
                try? await Task.sleep(for: .milliseconds(10))
            }
        }
        return tally
    }

    /// Decodes a push, commits it and encodes its response; returns whether all of its mutations took effect.
    private func push(_ mutations: Int, by client: inout BenchClient) async throws(Problem) -> Bool {
        let (body, device) = client.nextPush(mutations)
        let push = try PushRequest(body: body, limits: limits)
        let answer = try await store.pushes.submit(
            push,
            organization: device.organization,
            user: device.user,
            isStrict: false
        )
        _ = answer.json()
        return answer.verdicts.allSatisfy { $0.status == .succeeded }
    }
}

/// The devices of a connection. The connection pushes from each device in turn.
struct BenchClient: Sendable {
    fileprivate(set) var devices: [BenchDevice] = []
    private var turn = 0

    fileprivate init() {}

    fileprivate mutating func nextPush(_ mutations: Int) -> (body: [UInt8], device: BenchDevice) {
        turn = (turn + 1) % devices.count
        let body = devices[turn].push(mutations)
        return (body, devices[turn])
    }
}

/// A device of the benchmark, with its next sequence number.
struct BenchDevice: Sendable {
    let organization: Organization
    let user: UUID
    private let id = UUID()
    private var sequence: Int64 = 1

    private static let ids = UUIDv4Generator()
    private static let createdAt = SystemClock.now().rfc3339
    private static let payload = Array(
        (#"{"title":"hello world","amount":12.5,"notes":""# + String(repeating: "lorem ipsum ", count: 10)
            + #"","tags":["a","b"],"done":false}"#).utf8
    )

    fileprivate init(organization: Organization, user: UUID) {
        self.organization = organization
        self.user = user
    }

    /// Returns the body of a push that creates entities of about 200 bytes.
    fileprivate mutating func push(_ mutations: Int) -> [UInt8] {
        JSONWriter.object(capacity: 128 + mutations * 640) { writer in
            writer.member("device_id", id)
            writer.name("mutations")
            writer.beginArray()
            for _ in 0..<mutations {
                writer.object {
                    $0.member("id", Self.ids.make())
                    $0.member("idempotency_key", Self.ids.make())
                    $0.member("sequence_number", sequence)
                    $0.member("operation", "create")
                    $0.member("entity_type", "activity")
                    $0.member("local_id", Self.ids.make())
                    $0.member("payload", raw: Self.payload)
                    $0.member("created_at", Self.createdAt)
                }
                sequence += 1
            }
            writer.endArray()
        }
    }
}
