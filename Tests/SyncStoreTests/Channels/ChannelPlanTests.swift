import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

@Suite struct ChannelPlanTests {
    /// A page must not read what other channels have, whatever the tables were like when its plan was made.
    @Test(.onOneServer("plans of one server"))
    func `a page of channels reads a few rows of each channel by its key`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id.lowercased
        let (user, channel) = (UUID().lowercased, ChannelID(named: "c/1").uuid.lowercased)
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        try await connection.execute(
            script: """
                INSERT INTO entities (organization_id, entity_type, id, id_is_integer, version, is_deleted, document,
                    feed_position, owner_id, updated_by, updated_on, run_base, created_at, updated_at, channels)
                SELECT '\(organization)', 'visit', n::text, false, 1, false, '{}', n, '\(user)', '\(user)', '\(user)', 0,
                    now(), now(), ARRAY[CASE WHEN n % 100 = 0 THEN '\(channel)'::uuid ELSE '\(user)'::uuid END]
                FROM generate_series(1, 5000) n;
                INSERT INTO entity_channels SELECT organization_id, channels[1], feed_position, feed_position FROM entities
                WHERE organization_id = '\(organization)';
                UPDATE feeds SET last_position = 5000 WHERE organization_id = '\(organization)';
                """
        )
        let values = """
            '\(organization)', '\(UUID().lowercased)', 5000, ARRAY['\(channel)']::uuid[], 0, 9000, 0, 100, '{}', 10, 10, 100000
            """
        let shape = [Query.planByIndex, Query(Pool.orderShape)]
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for plan in try await connection.plans(of: ChannelFeedReader.statement, values, shape) {
                for table in ["entities", "entity_channels", "ended_stays"] {
                    #expect(!plan.contains("Seq Scan on \(table)"), "\(plan)")
                }
                let rows = plan.matches(of: /actual rows=(\d+)/).compactMap { Int($0.output.1) }
                #expect((rows.max() ?? 0) <= 12, "\(plan)")
            }
        }
        connection.close()
    }
}
