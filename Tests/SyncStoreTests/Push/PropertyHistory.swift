import Foundation
import JSONText
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncStore

/// A mutation of a random history, as the phone captured it.
struct CapturedMutation: Sendable {
    /// The content of a payload's member.
    enum Value: Sendable {
        case text(String)
        /// A client id of the user.
        case reference(UUID)
    }

    var entry: Entry
    let user: UUID
    let device: UUID
    /// The members, in the order of the payload's text; the value `null` removes a member.
    let members: [(name: String, value: Value)]
    let isValid: Bool

    /// The payload with server ids in place of the client ids that are in `ids`.
    func values(_ ids: [UUID: String]) -> [(name: String, text: String)] {
        members.map { name, value in
            switch value {
            case .text(let text): (name, text)
            case .reference(let id): (name, #""\#(ids[id] ?? id.lowercased)""#)
            }
        }
    }

    func payload(_ ids: [UUID: String] = [:]) -> String {
        "{" + values(ids).map { #""\#($0.name)":\#($0.text)"# }.joined(separator: ",") + "}"
    }
}

/// Every answer to any attempt of any mutation, including lost answers.
final class AnswerLedger: Sendable {
    struct Answer: Sendable {
        let outcome: String
        let isReplayed: Bool
        let status: String
        let version: Int64?
        /// The text of the server id.
        let id: String?
    }

    private let entries = Mutex([UUID: [Answer]]())

    func record(_ answer: JSONValue) {
        let results = answer.results.compactMap { result -> (UUID, Answer)? in
            guard let key = result.key else { return nil }
            return (
                key,
                Answer(
                    outcome: result.outcome,
                    isReplayed: result.isReplayed ?? false,
                    status: result.status ?? "",
                    version: result.version,
                    id: result["server_id"].flatMap { $0.isNull ? nil : $0.string ?? $0.text }
                )
            )
        }
        entries.withLock { entries in
            for (key, answer) in results { entries[key, default: []].append(answer) }
        }
    }

    subscript(key: UUID) -> [Answer] { entries.withLock { $0[key] ?? [] } }
}

/// The shared state of all phones of a random history.
final class HistoryWorld: Sendable {
    struct Known: Sendable {
        let type: String
        let client: UUID
        let server: String
        let user: UUID
    }

    let replicas: GatewayPair
    let organization: Organization
    let ledger = AnswerLedger()
    /// Mapped entities whose creates were answered.
    private let answered = Mutex<[Known]>([])

    init(_ replicas: GatewayPair, _ organization: Organization) {
        self.replicas = replicas
        self.organization = organization
    }

    func publish(_ known: [Known]) { answered.withLock { $0 += known } }
    var published: [Known] { answered.withLock { $0 } }
}

/// A device of a random history. It captures mutations and pushes them over an unreliable network. Answers are lost.
/// Batches are sent again in part, merged with later batches, or sent twice, concurrently or in sequence.
actor HistoryPhone {
    private let world: HistoryWorld
    private let phone: Phone
    private var generator: SeededRandom
    private(set) var captured: [CapturedMutation] = []
    private var outbox: [CapturedMutation] = []
    private var acknowledged: Int64 = 0
    /// Mapped entities that this device created, and shared ones that it has ensured.
    private var own: [(type: String, client: UUID)] = []
    private var shared: [Int] = []
    /// Client ids whose server ids an answer contained.
    private var known: [UUID: String] = [:]

    init(_ world: HistoryWorld, user: UUID, _ generator: SeededRandom) {
        self.world = world
        self.generator = generator
        phone = Phone(world.replicas.base, world.organization, user: user)
    }

    /// Captures `count` mutations and pushes until all are acknowledged.
    func live(count: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { stragglers in
            while captured.count < count || !outbox.isEmpty {
                for _ in 0..<Int.random(in: 0...6, using: &generator) where captured.count < count { capture() }
                guard !outbox.isEmpty else { continue }
                if generator.oneIn(20) { try await world.replicas.restart(Int.random(in: 0...1, using: &generator)) }
                let batch = Array(outbox.prefix(Int.random(in: 1...12, using: &generator)))
                switch Int.random(in: 0..<10, using: &generator) {
                case 0, 1:
                    // this push runs in parallel with everything that follows, and its answer is lost
                    let (entries, gateway) = prepare(batch)
                    stragglers.addTask { _ = try await self.send(entries, through: gateway) }
                case 2:
                    let (entries, gateway) = prepare(batch)
                    _ = try await send(entries, through: gateway)
                case 3, 4: try await pushTwice(batch)
                case 5, 6: try await pushOneBehindTheOther(batch)
                default:
                    let (entries, gateway) = prepare(batch)
                    acknowledge(batch, try await send(entries, through: gateway))
                }
            }
            try await stragglers.waitForAll()
        }
    }

    private func pushTwice(_ batch: [CapturedMutation]) async throws {
        let (entries, gateway) = prepare(batch)
        let (part, other) = prepare(Array(batch.prefix(Int.random(in: 1...batch.count, using: &generator))))
        async let first = send(entries, through: gateway)
        async let second = send(part, through: other)
        let answers = try await (first, second)
        acknowledge(batch, answers.0)
    }

    /// Pushes two batches, of which the second names the first as its predecessor. The second is refused if it arrives
    /// first.
    private func pushOneBehindTheOther(_ batch: [CapturedMutation]) async throws {
        let next = Array(outbox.dropFirst(batch.count).prefix(Int.random(in: 1...6, using: &generator)))
        let (entries, gateway) = prepare(batch)
        let (following, other) = prepare(next)
        let (start, middle) = (acknowledged, batch[batch.count - 1].entry.number)
        async let first = send(entries, after: start, through: gateway)
        async let second = next.isEmpty ? nil : sendUnlessGap(following, after: middle, through: other)
        let answers = try await (first, second)
        acknowledge(batch, answers.0)
        if let answer = answers.1 { acknowledge(next, answer) }
    }

    // MARK: - Sending

    /// Returns a batch in random order, with or without the known server ids in place of client ids.
    private func prepare(_ batch: [CapturedMutation]) -> ([Entry], Gateway) {
        let entries = batch.map { mutation -> Entry in
            var entry = mutation.entry
            guard generator.oneIn(2), mutation.isValid else { return entry }
            if entry.operation != "delete" { entry.payload = mutation.payload(known) }
            if entry.operation != "create", let local = entry.local, let server = known[local] {
                entry.server = #""\#(server)""#
                if generator.oneIn(2) { entry.local = nil }
            }
            return entry
        }
        return (entries.shuffled(using: &generator), world.replicas.random(&generator))
    }

    private nonisolated func send(
        _ entries: [Entry],
        after: Int64? = nil,
        through gateway: Gateway
    ) async throws -> JSONValue {
        let answer = try await phone.persist(entries, after: after) { gateway }
        world.ledger.record(answer)
        #expect(answer["accepted_sequence"]?.int64 ?? 0 >= entries.map(\.number).max() ?? 0)
        return answer
    }

    private nonisolated func sendUnlessGap(
        _ entries: [Entry],
        after: Int64,
        through gateway: Gateway
    ) async throws -> JSONValue? {
        do {
            return try await send(entries, after: after, through: gateway)
        } catch let problem as Problem where problem.code == .sequenceGap {
            #expect(problem.expected ?? .max < after)
            return nil
        }
    }

    private func acknowledge(_ batch: [CapturedMutation], _ answer: JSONValue) {
        let keys = Set(batch.map(\.entry.key))
        outbox.removeAll { keys.contains($0.entry.key) }
        acknowledged = max(acknowledged, batch.map(\.entry.number).max() ?? 0)
        for mutation in batch where mutation.isValid && mutation.entry.operation == "create" {
            guard let client = mutation.entry.local,
                let server = answer.results.first(where: { $0.key == mutation.entry.key })?.serverID
            else { continue }
            known[client] = server
            world.publish([.init(type: mutation.entry.type, client: client, server: server, user: phone.user)])
        }
    }

    // MARK: - Capturing

    private func capture() {
        // numbers may leave gaps
        if generator.oneIn(10) { _ = phone.nextNumber() }
        let mutation =
            switch Int.random(in: 0..<20, using: &generator) {
            case 0, 1: captureInvalid()
            case 2...6: captureCreate()
            case 7, 8: captureSharedCreate()
            case 9...11: captureOnShared() ?? captureCreate()
            case 12, 13: captureOnForeign() ?? captureCreate()
            default: captureOnOwn() ?? captureCreate()
            }
        captured.append(mutation)
        outbox.append(mutation)
    }

    private func make(
        _ operation: String,
        _ type: String,
        local: UUID? = nil,
        server: String? = nil,
        isValid: Bool = true,
        strategies: [String] = ["server_wins", "client_wins"]
    ) -> CapturedMutation {
        let members = operation == "delete" ? [] : randomMembers(mayRemove: operation == "update")
        var entry = phone.entry(
            operation,
            type,
            local: local,
            server: server,
            id: generator.uuid(),
            key: generator.uuid()
        )
        // a patch with client_wins cannot override a deletion without a whole document, and would wait for a person
        let settling = strategies.filter { operation != "update" || $0 != "client_wins" }
        entry.extra["conflict_resolution"] = settling.randomElement(using: &generator).map { #""\#($0)""# }
        if isValid, generator.oneIn(6), let earlier = captured.filter(\.isValid).randomElement(using: &generator) {
            let id = generator.oneIn(2) ? earlier.entry.id : earlier.entry.local ?? earlier.entry.id
            // another user's client id has no meaning for this user
            entry.extra["dependency_ids"] = #"["\#(id.lowercased)"]"#
        }
        var mutation = CapturedMutation(
            entry: entry,
            user: phone.user,
            device: phone.device,
            members: members,
            isValid: isValid
        )
        mutation.entry.payload = operation == "delete" ? nil : mutation.payload()
        return mutation
    }

    private func randomMembers(mayRemove: Bool) -> [(name: String, value: CapturedMutation.Value)] {
        let names = ["a", "b", "c", "d", "e"].shuffled(using: &generator).prefix(
            Int.random(in: 0...4, using: &generator)
        )
        return names.map { name in
            switch Int.random(in: 0..<6, using: &generator) {
            case 0 where mayRemove: (name, .text("null"))
            case 1: (name, .text(#""\#(generator.uuid().uuidString)""#))
            case 2, 3:
                if let client = referable().randomElement(using: &generator) {
                    (name, .reference(client))
                } else {
                    (name, .text("true"))
                }
            default: (name, .text(String(generator.next())))
            }
        }
    }

    /// Client ids that this user has certainly created before.
    private func referable() -> [UUID] {
        own.map(\.client) + world.published.filter { $0.user == phone.user }.map(\.client)
    }

    private func captureCreate() -> CapturedMutation {
        let type = generator.oneIn(2) ? "task" : "note"
        let client = generator.uuid()
        let mutation = make("create", type, local: client)
        own.append((type, client))
        return mutation
    }

    private func captureSharedCreate() -> CapturedMutation {
        let id = Int.random(in: 1...8, using: &generator)
        shared.append(id)
        return make("create", "country", server: "\(id)", strategies: ["server_wins"])
    }

    private func captureOnShared() -> CapturedMutation? {
        guard let id = shared.randomElement(using: &generator) else { return nil }
        return make(randomWrite(), "country", server: "\(id)")
    }

    /// An entity of the device or, once its id has arrived, of the user's other devices.
    private func captureOnOwn() -> CapturedMutation? {
        let siblings = world.published.filter { $0.user == phone.user }.map { (type: $0.type, client: $0.client) }
        guard let target = (own + siblings).randomElement(using: &generator) else { return nil }
        return make(randomWrite(), target.type, local: target.client)
    }

    /// An entity that another user may have created, by its server id.
    private func captureOnForeign() -> CapturedMutation? {
        guard let target = world.published.randomElement(using: &generator) else { return nil }
        return make(randomWrite(), target.type, server: #""\#(target.server)""#)
    }

    private func captureInvalid() -> CapturedMutation {
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
            var mutation = make("create", "task", local: generator.uuid(), isValid: false)
            mutation.entry.extra["max_attempts"] = "0"
            return mutation
        case 1: return make("update", "task", local: generator.uuid(), isValid: false)
        case 2:
            var mutation = make("create", "note", local: generator.uuid(), isValid: false)
            mutation.entry.payload = "[]"
            return mutation
        default:
            var mutation = make("create", "note", local: generator.uuid(), isValid: false)
            mutation.entry.extra["dependency_ids"] = #"["\#(mutation.entry.id.lowercased)"]"#
            return mutation
        }
    }

    private func randomWrite() -> String {
        ["update", "update", "update", "replace", "delete"].randomElement(using: &generator) ?? "update"
    }
}
