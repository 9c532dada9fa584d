import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import EncryptionFeature
@testable import SyncStore

/// Encryption at rest of the content of events.
@Suite struct SealedEventTests {
    private static let secret = "geheimnis"

    /// Returns the source of an organization that has a request in flight about entity 7, so that events about this
    /// entity are parked.
    private func source(_ gateway: Gateway) async throws -> EventSource {
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect()
        let now = gateway.clock.now.rfc3339
        try await connection.execute(
            script: """
                INSERT INTO sent_requests (organization_id, idempotency_key, entity_type, server_id, sent_at)
                VALUES ('\(organization.id)', gen_random_uuid(), 'task', '7', '\(now)')
                """
        )
        await connection.closeAndWait()
        return EventSource(gateway, organization)
    }

    private func document(_ text: String) -> String { #"{"title":"\#(text)"}"# }

    @Test func `an event's content is encrypted in the database and readable in the feed`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let source = try await source(gateway)
        let results = try await source.results([
            EventSource.event("a", "1", version: 1, document(Self.secret)),
            EventSource.event("b", "7", version: 1, document(Self.secret)),
        ])
        #expect(results == ["applied", "parked"])
        #expect(try await gateway.database.mentions(of: Self.secret) == [:])
        #expect(
            try await gateway.database.mentions(of: "sluice-sealed:1:1:").keys.sorted() == [
                "entities", "parked_events",
            ]
        )
        // a new key, and all rows sealed under the old one are sealed again
        _ = try await gateway.store.keyRotation.renew(source.organization.id)
        _ = try await gateway.store.keyRotation.sealRows(of: source.organization.id, grace: 0) { _ in }
        #expect(try await gateway.database.mentions(of: "sluice-sealed:1:1:") == [:])
        gateway.clock.advance(seconds: SentRecord.flightSeconds + 1)
        await gateway.store.ingest.release()
        let phone = Phone(gateway, source.organization)
        #expect(try await phone.pull().map { $0["document"]?["title"]?.string } == [Self.secret, Self.secret])
        #expect(try await gateway.count("parked_events", of: source.organization.id) == 0)
    }

    @Test func `parked events survive a restart of the gateway`() async throws {
        let replicas = try await GatewayPair()
        let source = try await source(replicas.base)
        #expect(try await source.results([EventSource.event("b", "7", version: 1)], through: replicas[0]) == ["parked"])
        try await replicas.restart(0)
        for gateway in [replicas[0], replicas[1], replicas.base] { gateway.clock.advance(seconds: 200) }
        await replicas[1].store.ingest.release()
        let phone = Phone(replicas.base, source.organization)
        try await waitUntil("it is applied") { try await phone.pull().count == 1 }
        let again = try await source.send([EventSource.event("b", "7", version: 1)], through: replicas[1])
        #expect(again[0]["result"]?.string == "duplicate" && again[0]["original"]?.string == "applied")
    }
}
