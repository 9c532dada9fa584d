import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport

@testable import SyncStore

/// A gateway and its replica on one database, and organizations for random histories.
final class RuleWorld: Sendable {
    let replicas: GatewayPair

    init() async throws { replicas = try await GatewayPair() }

    /// Both clocks advance together.
    func advance(seconds: Double) {
        for index in 0...1 { replicas[index].clock.advance(seconds: seconds) }
    }

    var now: Timestamp { replicas[0].clock.now }

    func restart(_ index: Int) async throws {
        let moment = now
        try await replicas.restart(index)
        replicas[index].clock.set(moment)
    }
}

/// A deviation of the gateway from the rules.
struct RuleBreach: Error, CustomStringConvertible {
    let description: String
}

/// One organization of a history: its phones' actions, and the results by the rules.
struct RuleTenant {
    struct Device {
        let id: UUID
        var lastNumber: Int64 = 0
        /// Captured and not sent yet.
        var outbox: [(entry: RuleEntry, number: Int64)] = []
    }

    struct Person {
        let id: UUID
        var devices: [Device]
        /// Every sent entry.
        var sent: [(entry: RuleEntry, number: Int64, device: Int)] = []
        /// Every generated client id, with its types.
        var clients: [(id: UUID, type: RuleType)] = []
        /// The mutations of a lost worker, and the end of its lease.
        var flying: (mutations: [UUID], until: Timestamp)?
        /// The time at which a claim next finds work, as recorded at the lane's release.
        var keys: [String: UUID] = [:]
    }

    let organization: Organization
    var model: RuleModel
    var people: [Person]
    /// The next id of the upstream.
    var nextID = 1

    func lane(_ person: Int) -> LaneKey { LaneKey(organization: organization.id, user: people[person].id) }
}

/// A random history of two organizations with the same users, devices and ids, so that missing isolation becomes
/// visible. Every answer is compared with ``RuleModel``.
struct RuleHistory {
    let world: RuleWorld
    let seed: UInt64
    var generator: SeededRandom
    var tenants: [RuleTenant] = []
    var nextContent = 1
    /// The actions, to explain a failure: the organization, and a description.
    var story: [(tenant: Int, text: String)] = []
    private(set) var checks = 0

    init(_ world: RuleWorld, seed: UInt64) async throws {
        self.world = world
        self.seed = seed
        generator = SeededRandom(seed)
        let people = (0..<2).map { _ in
            RuleTenant.Person(id: generator.uuid(), devices: (0..<2).map { _ in .init(id: generator.uuid()) })
        }
        for _ in 0..<2 {
            let conflict = generator.chance(70) ? "halt" : "continue"
            let failure = generator.chance(20) ? "halt" : "continue"
            let strategy = generator.pick([.manual, .manual, .serverWins, .clientWins] as [ConflictResolution])
            let inFlight = generator.oneIn(2) ? Int.random(in: 1...6, using: &generator) : nil
            let batch = inFlight != nil && generator.oneIn(2) ? Int.random(in: 2...12, using: &generator) : nil
            let settings = """
                {"on_conflict":"\(conflict)","on_failure":"\(failure)","conflict_resolution":"\(strategy.rawValue)",
                "order":"\(inFlight == nil ? "lane" : "dependencies")","max_in_flight_per_user":\(inFlight ?? 8)}
                """
            let plain = try await world.replicas.base.organization(settings)
            try await DispatcherHarness.setUpstream(plain.id, world.replicas.base, 64, "/id")
            if let batch { try await world.replicas.base.takeBatches(of: batch, in: plain.id) }
            let rule = generator.pick(DeletionRule.allCases)
            try await world.replicas.base.makeBuiltIn(.note, in: plain.id, rule)
            let organization = try await world.replicas.base.known(plain.id)
            var model = RuleModel(
                haltsOnConflict: conflict == "halt",
                haltsOnFailure: failure == "halt",
                strategy: strategy,
                deletionRule: rule
            )
            (model.inFlight, model.batch) = (inFlight, batch)
            tenants.append(RuleTenant(organization: organization, model: model, people: people))
        }
    }

    /// Runs a number of steps and checks everything at the end.
    mutating func live(steps: Int) async throws {
        for _ in 0..<steps {
            let tenant = generator.oneIn(3) ? 1 : 0
            story.append((tenant, "."))
            let person = generator.oneIn(3) ? 1 : 0
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<45: try await push(tenant, person)
            case 45..<75: try await run(tenant, person)
            case 75..<88: try await settle(tenant, person)
            case 88..<96:
                let seconds = generator.pick([1, 5, 60, 125, 2_000] as [Double])
                story.append((-1, "clock +\(seconds)"))
                world.advance(seconds: seconds)
            default:
                let index = Int.random(in: 0...1, using: &generator)
                story.append((-1, "restart \(index)"))
                try await world.restart(index)
            }
            try await check(tenant, person)
        }
        for tenant in tenants.indices {
            for person in 0..<2 { try await check(tenant, person) }
            try await checkFeed(tenant)
        }
    }

    mutating func gateway() -> Gateway { world.replicas.random(&generator) }

    func breach(_ text: String) -> RuleBreach {
        let tenant = story.last?.tenant
        let last = story.filter { $0.tenant == tenant || $0.tenant < 0 }.suffix(30).map(\.text).joined(
            separator: "\n  "
        )
        return RuleBreach(description: "SLUICE_TEST_SEED=\(seed): \(text)\nwhat was done there last:\n  \(last)")
    }

    mutating func expect(_ isSo: Bool, _ text: @autoclosure () -> String) throws {
        checks += 1
        if !isSo { throw breach(text()) }
    }
}

extension SeededRandom {
    mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &self)]
    }
}

extension Gateway {
    fileprivate func takeBatches(of count: Int, in organization: UUID) async throws {
        let connection = try await database.connect()
        let batch = #"{"path":"/$batch","max_requests":\#(count)}"#
        try await connection.execute(
            script: "UPDATE upstreams SET batch = '\(batch)' WHERE organization_id = '\(organization)'"
        )
        connection.close()
        store.catalog.invalidate(organization)
    }

    /// Makes a type built-in, with a relation to itself.
    fileprivate func makeBuiltIn(_ type: RuleType, in organization: UUID, _ rule: DeletionRule) async throws {
        let connection = try await database.connect()
        try await connection.execute(
            script: """
                INSERT INTO entity_types (
                    organization_id, name, id_space, visibility, default_priority, is_forwarded, relations, on_delete)
                VALUES ('\(organization)', '\(type.rawValue)', 'mapped', 'organization', 0, false,
                    '{"ref":"\(type.rawValue)"}', '{"ref":"\(rule.rawValue)"}')
                """
        )
        connection.close()
        store.catalog.invalidate(organization)
    }
}
