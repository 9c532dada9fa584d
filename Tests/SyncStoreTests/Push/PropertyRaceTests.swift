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

@Suite(.serialized) struct PropertyRaceTests {
    @Test func `fifty copies of a push through two replicas execute once`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let replicas = try await GatewayPair(committers: 2)
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let (contact, task) = (UUID(), UUID())
        let batch = [
            phone.create("contact", local: contact, payload: #"{"n":1}"#),
            phone.create("task", local: task, payload: #"{"contact":"\#(contact.lowercased)"}"#),
            phone.entry("update", "contact", local: contact, payload: #"{"m":2}"#),
            phone.entry("update", "contact", local: UUID()),
            phone.entry("delete", "task", local: task),
        ]
        let twins = (0..<50).map { _ in (batch.shuffled(using: &generator), replicas.random(&generator)) }
        let answers = try await withThrowingTaskGroup(of: JSONValue.self) { group in
            for (entries, gateway) in twins { group.addTask { try await phone.persist(entries) { gateway } } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let firsts = answers.filter { $0.results.allSatisfy { $0.isReplayed == false } }
        let replays = answers.filter { $0.results.allSatisfy { $0.isReplayed == true } }
        #expect(firsts.count == 1, "\(seed)")
        #expect(replays.count == 49, "\(seed)")
        // each copy has a different order of entries, so the answers are compared as sets
        #expect(Set(answers.map { Set($0.results.map { Self.withoutPointers($0.outcome) }) }).count == 1, "\(seed)")
        #expect(Set(answers.map { $0["feed"]?.string }).count == 1, "\(seed)")
        #expect(Set(answers.map { Set($0["id_mappings"]?.elements?.map(\.text) ?? []) }).count == 1, "\(seed)")
        #expect(answers.allSatisfy { $0["accepted_sequence"]?.int64 == 5 }, "\(seed)")
        let changes = try await phone.pull()
        #expect(changes.map { $0["version"]?.int64 } == [2, 2], "\(seed)")
    }

    @Test func `two users who write the same entities in opposite order lose no update`() async throws {
        let (entities, rounds) = (12, 25)
        let replicas = try await GatewayPair()
        let alice = Phone(replicas.base, try await replicas.base.organization())
        let bob = Phone(replicas.base, alice.organization)
        let made = try await alice.push((0..<entities).map { _ in alice.create(payload: "{}") })
        let ids = made.results.compactMap(\.serverID)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (place, phone) in [alice, bob].enumerated() {
                group.addTask {
                    let order = place == 0 ? ids : ids.reversed()
                    for round in 0..<rounds {
                        let answer = try await phone.push(
                            order.map { id in
                                phone.entry(
                                    "update",
                                    server: #""\#(id)""#,
                                    payload: #"{"m\#(place)_\#(round)":\#(round)}"#
                                )
                            },
                            through: replicas[place]
                        )
                        #expect(answer.results.allSatisfy { $0.status == "succeeded" })
                    }
                }
            }
            try await group.waitForAll()
        }
        let changes = try await alice.pull()
        #expect(changes.count == entities)
        let expected = Set((0..<2).flatMap { place in (0..<rounds).map { "m\(place)_\($0)" } })
        for change in changes {
            #expect(change["version"]?.int64 == Int64(1 + 2 * rounds))
            #expect(Set(change["document"]?.namedTexts.map(\.name) ?? []) == expected)
        }
    }

    @Test func `two users who create the same shared IDs in opposite order create each entity once`() async throws {
        let (ids, rounds) = (10, 15)
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization(#"{"conflict_resolution":"server_wins"}"#)
        _ = try await replicas.base.store.administration.putEntityType(
            "country",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"id_space":"shared"}"#.utf8))
        )
        for round in 0..<rounds {
            let answers = try await withThrowingTaskGroup(of: (Int, JSONValue).self) { group in
                for place in 0..<6 {
                    let phone = Phone(replicas.base, organization)
                    let numbers = (0..<ids).map { round * ids + $0 }
                    group.addTask {
                        let order = place % 2 == 0 ? numbers : numbers.reversed()
                        let entries = order.map { number in
                            phone.entry("create", "country", server: "\(number)", payload: #"{"by":\#(place)}"#)
                        }
                        return (place, try await phone.push(entries, through: replicas[place % 2]))
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let results = answers.flatMap { place, answer in answer.results.map { (place, $0) } }
            let winners = results.filter { $0.1.status == "succeeded" }
            #expect(winners.count == ids)
            #expect(Set(winners.compactMap { $0.1["server_id"]?.int64 }).count == ids)
            #expect(results.filter { $0.1.status == "discarded" }.count == 5 * ids)
        }
        let changes = try await Phone(replicas.base, organization).pull()
        #expect(changes.count == ids * rounds)
        #expect(changes.allSatisfy { $0["version"]?.int64 == 1 })
    }

    @Test func `a new replica answers a repeat of a committed push that was never answered`() async throws {
        let base = try await Gateway()
        let phone = Phone(base, try await base.organization())
        let contact = UUID()
        let batch = [
            phone.create("contact", local: contact),
            phone.create("task", payload: #"{"c":"\#(contact.lowercased)"}"#),
        ]
        var before: String?
        do {
            let doomed = try await Gateway(replicaOf: base)
            before = try await phone.push(batch, through: doomed).results.map(\.outcome).joined()
        }
        let fresh = try await Gateway(replicaOf: base)
        let later = phone.create()
        let answer = try await phone.push(batch + [later], through: fresh)
        #expect(answer.results.map(\.isReplayed) == [true, true, false])
        #expect(answer.results.prefix(2).map(\.outcome).joined() == before)
        #expect(try await phone.pull().count == 3)
    }

    @Test func `pushes interrupted at any moment take effect once`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let counter = UUID()
        let phones = (0..<4).map { _ in Phone(replicas.base, organization) }
        let made = try await phones[0].push([phones[0].create(local: counter, payload: "{}")])
        let id = try #require(made.results[0].serverID)
        let isOver = Flag()
        async let killer: Void = Self.cutConnections(of: replicas.base, until: isOver)
        let replays = try await withThrowingTaskGroup(of: Int.self) { group in
            for (place, phone) in phones.enumerated() {
                var generator = generator.split()
                group.addTask {
                    var replays = 0
                    for round in 0..<15 {
                        let entries = [
                            phone.create("note"),
                            phone.entry("update", server: #""\#(id)""#, payload: #"{"m\#(place)_\#(round)":1}"#),
                        ]
                        let answer = try await phone.persist(entries) { replicas.random(&generator) }
                        #expect(answer.results.allSatisfy { $0.status == "succeeded" }, "\(seed)")
                        replays += answer.results.filter { $0.isReplayed == true }.count
                    }
                    return replays
                }
            }
            return try await group.reduce(0, +)
        }
        isOver.raise()
        try await killer
        #expect(replays % 2 == 0, "\(seed): a push is committed as a whole")
        let changes = try await phones[0].pull()
        #expect(changes.filter { $0["entity_type"]?.string == "note" }.count == 60, "\(seed)")
        let document = try #require(changes.first { $0["id"]?.string == id })
        #expect(document["version"]?.int64 == 61, "\(seed)")
        #expect(document["document"]?.namedTexts.count == 60, "\(seed)")
    }

    // MARK: - Steps

    /// Ends every connection that is busy with a group, repeatedly and with decreasing frequency, so that slow pushes
    /// succeed in the end.
    private static func cutConnections(of gateway: Gateway, until isOver: Flag) async throws {
        let connection = try await gateway.database.connect()
        var pause = 0.02
        while !isOver.isRaised {
            try await connection.execute(
                script: """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle';
                    SELECT pg_sleep(\(pause))
                    """
            )
            pause *= 1.02
        }
        await connection.closeAndWait()
    }

    /// Removes pointers, because they contain an entry's index in the push that was refused first.
    private static func withoutPointers(_ outcome: String) -> String {
        outcome.replacing(/\/mutations\/\d+/, with: "/mutations/N")
    }
}
