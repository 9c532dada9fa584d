import AdministrationFeature
import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Grants that end while a push waits for the lock of an entity.
@Suite struct GrantRaceTests {
    /// Another gateway ends the user's grant and writes the entity in one transaction, so at no position of the feed the
    /// user sees what was written.
    @Test(.onOneServer("locks of one server"))
    func `a push that waited for an entity follows the grants at the time of its lock`() async throws {
        let gateway = try await Gateway()
        let id = try await gateway.organization().id
        let settings = #"{"visibility":"channels","channels":["team/{/team}"]}"#
        _ = try await gateway.store.administration.putEntityType(
            "note",
            in: id,
            try EntityTypeUpdate(body: Array(settings.utf8))
        )
        let organization = try await gateway.known(id)
        let (author, reader) = (Phone(gateway, organization), Phone(gateway, organization))
        for phone in [author, reader] {
            _ = try await gateway.store.administration.grantChannel("team/a", to: phone.user, .write, in: id)
        }
        let created = try await author.push([author.create("note", payload: #"{"team":"a"}"#)])
        let note = try #require(created.results[0].serverID)
        #expect(try await reader.pull().count == 1)

        let other = try await gateway.database.connect()
        defer { other.close() }
        try await other.execute(
            script: """
                BEGIN;
                UPDATE feeds SET last_position = last_position + 1 WHERE organization_id = '\(id.lowercased)';
                UPDATE channel_grants g SET until = f.last_position, changed_at = f.last_position
                FROM feeds f
                WHERE f.organization_id = g.organization_id AND g.organization_id = '\(id.lowercased)'
                    AND g.user_id = '\(reader.user.lowercased)';
                UPDATE entities SET version = version + 1, document = '{"team":"a","secret":true}'
                WHERE organization_id = '\(id.lowercased)' AND id = '\(note)';
                """
        )
        let update = reader.entry(
            "update",
            "note",
            server: #""\#(note)""#,
            payload: #"{"text":"x"}"#,
            extra: ["base_version": "1"]
        )
        async let pushed = reader.push([update])
        try await gateway.waitForLocks(1)
        try await other.execute(script: "COMMIT")
        let result = try await pushed.results[0]
        #expect(result.status == "failed" && result["response"]?["status"]?.int64 == 404, "\(result.text)")
        #expect(result["error"]?["current"] == nil)
        #expect(try await author.pull().last?["document"]?["text"] == nil)
    }
}
