import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// Adverse interactions between pushes of a group, a replica's cache and an operator.
@Suite(.serialized) struct PropertyAdversaryTests {
    // MARK: - One group

    @Test func `a push that the database refuses fails alone in its group`() async throws {
        let gateway = try await Gateway(committers: 1)
        let organization = try await gateway.organization()
        try await Self.script(
            gateway,
            "ALTER TABLE mutations ADD CONSTRAINT no_poison CHECK (payload::text NOT LIKE '%poison%')"
        )
        let phones = (0..<17).map { _ in Phone(gateway, organization) }
        let poisoned = [3, 4, 16]
        let batches = phones.enumerated().map { place, phone in
            [phone.create(), phone.create(payload: poisoned.contains(place) ? #"{"x":"poison"}"# : "{}")]
        }
        let outcomes = try await Self.inOneGroup(gateway, organization) { group in
            for (place, phone) in phones.enumerated() { group.add { try await phone.push(batches[place]) } }
        }
        for (place, outcome) in outcomes.enumerated() {
            switch outcome {
            case .success(let answer):
                #expect(!poisoned.contains(place))
                #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
            case .failure(let problem):
                #expect(poisoned.contains(place))
                #expect(problem.code == .internalError)
            }
        }
        #expect(try await phones[0].pull().count == 1 + 2 * 14)
        // no part of a refused push is stored, so the same numbers are accepted with a valid payload
        for place in poisoned {
            var batch = batches[place]
            batch[1].payload = "{}"
            let answer = try await phones[place].push(batch, after: 0)
            #expect(answer.results.map(\.isReplayed) == [false, false])
        }
    }

    @Test func `a refused first push of a new user does not affect the user's later pushes`() async throws {
        let gateway = try await Gateway(committers: 1)
        let organization = try await gateway.organization()
        let (alice, bob) = (Phone(gateway, organization), Phone(gateway, organization))
        let refused = [alice.entry("update", local: UUID())]
        let outcomes = try await Self.inOneGroup(gateway, organization) { group in
            group.add { try await alice.push(refused, strict: true) }
            group.add { try await bob.push([bob.create()]) }
        }
        #expect(throws: Problem.self) { try outcomes[0].get() }
        #expect(throws: Never.self) { try outcomes[1].get() }
        #expect(try await alice.push([alice.create()]).results[0].status == "succeeded")
        #expect(try await gateway.store.catalog.isUserKnown(alice.user, in: organization.id))
    }

    @Test func `pushes of a group see each other's entities`() async throws {
        let gateway = try await Gateway(committers: 1)
        let organization = try await gateway.organization(#"{"conflict_resolution":"server_wins"}"#)
        _ = try await gateway.store.administration.putEntityType(
            "country",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"id_space":"shared"}"#.utf8))
        )
        let phones = (0..<8).map { _ in Phone(gateway, organization) }
        let outcomes = try await Self.inOneGroup(gateway, organization) { group in
            for phone in phones {
                let entries = [
                    phone.entry("create", "country", server: "7", payload: "{}"),
                    phone.entry("update", "country", server: "7", payload: #"{"\#(phone.user.lowercased)":1}"#),
                ]
                group.add { try await phone.push(entries) }
            }
        }
        let results = try outcomes.map { try $0.get().results }
        #expect(results.filter { $0[0].status == "succeeded" }.count == 1)
        #expect(Set(results.compactMap { $0[1].version }) == Set(2...9))
        let changes = try await phones[0].pull(types: ["country"])
        #expect(changes.count == 1)
        #expect(changes[0]["document"]?.namedTexts.count == 8)
    }

    // MARK: - A replica's cache

    /// A push by a replica whose cached device state is older than another replica's writes.
    @Test func `a replica with an outdated cache still recognizes every repeat`() async throws {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let (behind, ahead) = (replicas[0], replicas[1])
        try await phone.push([phone.create()], through: behind)
        let local = UUID()
        let create = phone.create(local: local)
        let broken = phone.entry("update", local: UUID())
        let batch = [create, phone.entry("update", local: local), broken]
        let first = try await phone.push(batch, through: ahead)
        let again = try await phone.push(batch + [phone.entry("delete", local: local)], through: behind)
        #expect(again.results.map(\.isReplayed) == [true, true, true, false])
        #expect(again.results.prefix(3).map(\.outcome) == first.results.map(\.outcome))
        // the same key with other content, through the replica that has never seen it
        try await phone.push([phone.create()], through: ahead)
        var other = create
        other.payload = #"{"other":true}"#
        #expect(try await phone.push([other], through: behind).results[0].code == "idempotency_key_reused")
    }

    @Test func `a replica recognizes another device's key, ID and client ID that are not in its cache`()
        async throws
    {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let tablet = Phone(replicas.base, phone.organization, user: phone.user)
        // both replicas have cached the tablet's watermark
        try await tablet.push([tablet.create()], through: replicas[0])
        let local = UUID()
        let original = phone.create(local: local)
        let first = try await phone.push([original], through: replicas[1])

        var copy = original
        copy.number = tablet.nextNumber()
        let replay = try await tablet.push([copy, tablet.create()], through: replicas[0])
        #expect(replay.results.map(\.isReplayed) == [true, false])
        #expect(replay.results[0].serverID == first.results[0].serverID)

        var sameID = tablet.create()
        sameID.id = original.id
        let taken = try await tablet.push([sameID, tablet.create()], through: replicas[0])
        #expect(taken.results.map(\.code) == ["id_already_used", nil])

        let second = try await tablet.push([tablet.create(local: local), tablet.create()], through: replicas[0])
        #expect(second.results.map(\.status) == ["rejected", "succeeded"])
        #expect(second.results[0].rules == ["unique_client_id_per_entity_type"])
        #expect(try await phone.pull().count == 5)
    }

    @Test func `a replica whose cache is ahead of the database treats nothing as known`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let phone = Phone(replicas.base, organization)
        let batch = (0..<5).map { _ in phone.create() }
        try await phone.push(batch, through: replicas[0])
        // another replica purges the organization and creates it again before this replica's clock advances
        #expect(try await replicas[1].store.administration.purge(organization.id))
        _ = try await replicas[1].store.administration.put(
            organization.id,
            OrganizationUpdate(body: Array(#"{"name":"Again"}"#.utf8))
        )
        let answer = try await phone.push(batch, through: replicas[0])
        #expect(answer.results.map(\.isReplayed) == Array(repeating: false, count: 5))
        #expect(try await phone.pull().count == 5)
    }

    // MARK: - Operators

    @Test func `changes of an ID space during first uses leave one ID space for all entries`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let replicas = try await GatewayPair()
        for round in 0..<12 {
            let organization = try await replicas.base.organization()
            // each replica has cached the type as it was before the operator's changes
            let name = "type\(round)"
            _ = try await replicas[0].store.administration.putEntityType(
                name,
                in: organization.id,
                EntityTypeUpdate(body: Array("{}".utf8))
            )
            for place in 0...1 { _ = try await replicas[place].store.catalog.entry(organization.id) }
            let id = Int.random(in: 1...1_000, using: &generator)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for place in 0...1 {
                    let (mapped, shared) = (Phone(replicas.base, organization), Phone(replicas.base, organization))
                    group.addTask { try await mapped.push([mapped.create(name)], through: replicas[place]) }
                    group.addTask {
                        let entry = shared.entry("create", name, server: "\(id + place)")
                        try await shared.push([entry], through: replicas[1 - place])
                    }
                }
                for space in ["shared", "mapped"].shuffled(using: &generator) {
                    let place = Int.random(in: 0...1, using: &generator)
                    group.addTask {
                        do {
                            _ = try await replicas[place].store.administration.putEntityType(
                                name,
                                in: organization.id,
                                EntityTypeUpdate(body: Array(#"{"id_space":"\#(space)"}"#.utf8))
                            )
                        } catch let problem as Problem where problem.code == .idSpaceIsImmutable {}
                    }
                }
                try await group.waitForAll()
            }
            var parameters = Parameters()
            parameters.add(organization.id)
            let rows = try await replicas.base.read(
                """
                SELECT t.id_space, t.is_in_use, e.id_is_integer, e.client_id IS NOT NULL
                FROM entity_types t LEFT JOIN entities e ON e.organization_id = t.organization_id
                    AND e.entity_type = t.name
                WHERE t.organization_id = $1
                """,
                parameters
            )
            for row in 0..<rows.count where !rows.isNull(row, 2) {
                let isShared = try rows.read(row, 0, as: String.self) == "shared"
                #expect(try rows.read(row, 1, as: Bool.self), "\(seed), round \(round)")
                #expect(try rows.read(row, 2, as: Bool.self) == isShared, "\(seed), round \(round)")
                #expect(try rows.read(row, 3, as: Bool.self) == !isShared, "\(seed), round \(round)")
            }
        }
    }

    @Test func `pushes in progress leave no rows of a purged organization`() async throws {
        let seed = Seed()
        let replicas = try await GatewayPair()
        for round in 0..<6 {
            let organization = try await replicas.base.organization()
            let started = Countdown(8)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for place in 0..<8 {
                    group.addTask {
                        // each push has a new user, so lanes are created while the purge runs
                        for _ in 0..<200 {
                            let phone = Phone(replicas.base, organization)
                            do {
                                try await phone.push([phone.create(), phone.create()], through: replicas[place % 2])
                                started.finishOne()
                            } catch let problem as Problem where problem.code == .organizationUnknown {
                                return
                            }
                        }
                    }
                }
                group.addTask {
                    try await waitUntil("a push has started", every: .milliseconds(1)) { started.isOver }
                    let found = try await replicas[round % 2].store.administration.purge(organization.id)
                    #expect(found)
                }
                try await group.waitForAll()
            }
            try await Self.expectNothing(of: organization, replicas.base, "\(seed), round \(round)")
        }
    }

    /// A push of a new user creates a lane that a purge cannot see yet.
    @Test func `a purge waits for a new user's first push in progress`() async throws {
        let base = try await Gateway(committers: 1)
        let replica = try await Gateway(replicaOf: base)
        let doomed = try await base.organization()
        let other = try await base.organization()
        let (first, second) = (Phone(base, other), Phone(base, other))
        try await first.push([first.create()])
        try await second.push([second.create()])
        // the type is in use and not registered again, so no other lock blocks the new user
        let resident = Phone(base, doomed)
        try await resident.push([resident.create()])
        // a lock on one lane makes two pushes queue; a lock on the other stops their group after it created the new
        // user's lane
        let (plug, gate) = (try await HeldLane(first), try await HeldLane(second))
        let newcomer = Phone(base, doomed)
        let hasEnded = Flag()
        let plugged = Task { _ = try await first.push([first.create()]) }
        try await base.waitForLocks(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await second.push([second.create()]) }
            group.addTask {
                do {
                    try await newcomer.push([newcomer.entry("update", server: #""nobody""#)])
                } catch let problem as Problem where problem.code == .organizationUnknown {}
            }
            try await waitUntil("two are queued", every: .milliseconds(1)) { base.store.pushes.waiting >= 2 }
            try await plug.release()
            try await plugged.value
            try await base.waitForLocks(1)
            group.addTask {
                defer { hasEnded.raise() }
                _ = try await replica.store.administration.purge(doomed.id)
            }
            try await base.waitForLocks(2) { hasEnded.isRaised }
            try await gate.release()
            try await group.waitForAll()
        }
        try await Self.expectNothing(of: doomed, base, "")
    }

    // MARK: - Steps

    private static func script(_ gateway: Gateway, _ sql: String) async throws {
        let connection = try await gateway.database.connect()
        try await connection.execute(script: sql)
        await connection.closeAndWait()
    }

    private static func expectNothing(of organization: Organization, _ gateway: Gateway, _ comment: String) async throws
    {
        let tables = [
            "organizations", "entity_types", "feeds", "users", "devices", "lanes", "mutations", "rejections",
            "id_mappings", "entities",
        ]
        for table in tables {
            #expect(try await gateway.count(table, of: organization.id) == 0, "\(table) \(comment)")
        }
    }

    /// The pushes for one group.
    private struct Pushes {
        var list: [@Sendable () async throws -> JSONValue] = []
        mutating func add(_ push: @escaping @Sendable () async throws -> JSONValue) { list.append(push) }
    }

    /// Sends pushes so that they form one group. They queue after a push that waits for a lane that the test has
    /// locked.
    private static func inOneGroup(
        _ gateway: Gateway,
        _ organization: Organization,
        _ add: (inout Pushes) -> Void
    ) async throws -> [Result<JSONValue, Problem>] {
        var pushes = Pushes()
        add(&pushes)
        let plug = Phone(gateway, organization)
        try await plug.push([plug.create()])
        let held = try await HeldLane(plug)
        return try await withThrowingTaskGroup(of: (Int, Result<JSONValue, Problem>)?.self) { group in
            let next = plug.entry("update", local: UUID())
            group.addTask {
                try await plug.push([next])
                return nil
            }
            try await gateway.waitForLocks(1)
            for (place, push) in pushes.list.enumerated() {
                group.addTask {
                    do {
                        return (place, .success(try await push()))
                    } catch let problem as Problem {
                        return (place, .failure(problem))
                    }
                }
            }
            try await waitUntil("all are queued", every: .milliseconds(1)) {
                gateway.store.pushes.waiting >= pushes.list.count
            }
            try await held.release()
            var outcomes: [Int: Result<JSONValue, Problem>] = [:]
            for try await case let (place, outcome)? in group { outcomes[place] = outcome }
            return outcomes.sorted { $0.key < $1.key }.map(\.value)
        }
    }
}
