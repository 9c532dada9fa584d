import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// A gateway that was restored from a backup, and requests everything above its watermark again.
@Suite struct SetBackTests {
    @Test func `discarded writes are not sent again after a restore`() async throws {
        let lab = try Lab()
        let kari = Contact(name: "Kari")
        let create = try #require(try lab.create(kari))
        let visit = try #require(try lab.create(Visit(contactID: kari.id, title: "First")))
        let other = try #require(try lab.create(Contact(name: "Ola")))
        let batch = try #require(try lab.batch())
        let results = [(create, "failed"), (visit, "blocked"), (other, "pending")].map { id, status -> JSON in
            ["id": .string(id.wire), "status": .string(status)]
        }
        #expect(try lab.answer(["results": .array(results), "accepted_sequence": 3], to: batch))
        try await lab.client.discard(create, dependents: .discard)
        try await lab.pool.write { try Outbox.reopen(above: 0, $0, now: Date()) }
        #expect(try #require(try lab.batch()).rows.map(\.id) == [other])
        // the phone asks about each, and the gateway has no record of them
        let told = Set(try lab.strings("SELECT mutation_id FROM sluice_intents"))
        #expect(told == [create.wire, visit.wire])
    }
}
