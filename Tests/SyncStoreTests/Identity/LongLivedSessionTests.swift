import Foundation
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore
@testable import UsersFeature

/// Finds the listeners that are no longer served.
@Suite struct LongLivedSessionTests {
    private static func caller(_ organization: Organization, _ user: UUID = UUID(), _ name: String? = nil)
        -> LongLivedSession
    {
        LongLivedSession(
            lane: LaneKey(organization: organization.id, user: user),
            name: name.map { ExternalID(issuer: "https://id.example", id: ByteExactString($0)) }
        )
    }

    @Test func `finds the lost callers among thousands`() async throws {
        let gateway = try await Gateway()
        let (open, other, suspended) = (
            try await gateway.organization(), try await gateway.organization(), try await gateway.organization()
        )
        let explicit = try await gateway.organization(#"{"provisioning":"explicit"}"#)
        let (inside, joined, closing, whole, erased) = (UUID(), UUID(), UUID(), UUID(), UUID())
        _ = try await gateway.store.administration.putUser(inside, in: explicit.id)
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(
            script: """
                UPDATE organizations SET status = 'suspended' WHERE id = '\(suspended.id)';
                INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
                VALUES ('\(open.id)', 'https://id.example', 'acme', now());
                INSERT INTO user_joins (organization_id, user_id, into_id, started_at, closed_until, feed_end, finished_at)
                VALUES ('\(open.id)', '\(joined)', '\(whole)', now(), NULL, 1, now()),
                    ('\(open.id)', '\(closing)', '\(whole)', now(), now() + interval '1 hour', NULL, NULL);
                INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
                VALUES ('\(open.id)', sha256(uuid_send('\(open.id)') || uuid_send('\(erased)')), now(), 'done', now())
                """
        )
        let lost = [
            Self.caller(suspended), Self.caller(explicit), Self.caller(explicit, joined),
            Self.caller(open, joined), Self.caller(open, erased), Self.caller(open, UUID(), "fjord"),
            Self.caller(other, UUID(), "acme"),
            LongLivedSession(lane: LaneKey(organization: UUID(), user: inside), name: nil),
            LongLivedSession(
                lane: LaneKey(organization: open.id, user: inside),
                name: ExternalID(issuer: "https://other.example", id: "acme")
            ),
        ]
        let kept =
            [
                Self.caller(explicit, inside), Self.caller(open, closing), Self.caller(open, whole),
                Self.caller(open, UUID(), "acme"), Self.caller(other, joined), Self.caller(other, erased),
            ] + (0..<2_500).map { _ in Self.caller(open) }
        let found = try await gateway.store.longLivedSessions.lost(among: (lost + kept).shuffled())
        #expect(Set(found) == Set(lost) && found.count == lost.count)
        #expect(try await gateway.store.longLivedSessions.lost(among: []) == [])
    }

    /// A thousand callers cost a few thousand look-ups by key, for tables of any size, with and without statistics.
    @Test(.onOneServer("plans of one server")) func `looks up callers by index`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"provisioning":"explicit"}"#)
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let fill = """
            INSERT INTO organizations (id, name, status, created_at, updated_at)
            SELECT gen_random_uuid(), 'Other', 'active', now(), now() FROM generate_series(1, 2000);
            INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
            SELECT o.id, 'https://id.example', 'org_' || o.id, now() FROM organizations o;
            INSERT INTO users (organization_id, user_id, created_at)
            SELECT '\(organization.id)', gen_random_uuid(), now() FROM generate_series(1, 5000);
            INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end, finished_at)
            SELECT '\(organization.id)', gen_random_uuid(), gen_random_uuid(), now(), 1, now()
            FROM generate_series(1, 2000);
            INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
            SELECT '\(organization.id)', sha256(int8send(n)), now(), 'done', now() FROM generate_series(1, 2000) n
            """
        let ids = "ARRAY['\(organization.id)', '\(organization.id)']::uuid[]"
        let users = "ARRAY['\(UUID())', '\(UUID())']::uuid[]"
        let values = "\(ids), \(users), ARRAY['https://id.example', ''], ARRAY['org_1', '']"
        for script in ["", fill, "ANALYZE"] {
            if !script.isEmpty { try await connection.execute(script: script) }
            for statement in LongLivedSessions.statements {
                for plan in try await connection.plans(of: statement, values, [.planByIndex]) {
                    #expect(!plan.contains("Seq Scan") && !plan.contains("Hash"), "\(plan)")
                    #expect(pages(in: plan) < 60, "\(plan)")
                }
            }
        }
    }
}
