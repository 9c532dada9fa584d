package import Foundation
import Postgres
package import SyncModel

/// Whether an upstream has accepted other mutations.
///
/// This decides whether an answer is the operator's problem or the mutation's own (product rule 11). It is read from
/// the mutations themselves, independent of which replica sent them, and costs successful ones nothing.
extension LaneStore {
    /// Final mutations of the organization that are read, the last first.
    ///
    /// More mutations of the built-in store than this may hide forwarded ones, which then count at a later poll.
    static let successesLookedAt = 2_000

    /// Whether an organization's upstream has accepted a request sent after a moment.
    ///
    /// - Parameter timeout: how long a request may take: the success of a mutation accepted before the moment counts
    ///   only from this long after it, since its request may have been in flight at that moment.
    /// - Throws: `store_unavailable`.
    package func hasSucceeded(
        in organization: UUID,
        since moment: Timestamp,
        timeout: Duration
    ) async throws(Problem) -> Bool {
        do {
            let query = Self.successStatement(
                organization: organization,
                since: moment,
                now: moment.adding(seconds: timeout / .seconds(1))
            )
            return try await pool.withConnection { connection in
                try await connection.run([.beginReading, Query(Self.successShape), query, .rollback])[2].bool(0, 0)
            }
        } catch {
            throw failure.problem(error, doing: "look whether others' mutations succeed")
        }
    }

    /// Prevents a plan that gathers and sorts all mutations of the organization.
    ///
    /// The planner would choose it if it expected few.
    static let successShape = Statement(
        "lane_success_shape",
        """
        SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
        """
    )

    /// The built-in store makes no attempts. A delete that was answered 404 is done, but the upstream accepted
    /// nothing.
    static let successStatement = Statement(
        "lane_successes",
        ["organization", "since", "now"],
        """
        SELECT EXISTS (
            SELECT 1
            FROM (
                SELECT x.status, x.attempt_count, x.response_status, x.accepted_at, x.synced_at
                FROM mutations x
                WHERE x.organization_id = :organization AND x.synced_at > :since
                ORDER BY x.synced_at DESC
                LIMIT \(successesLookedAt)
            ) m
            WHERE m.status = 'succeeded' AND m.attempt_count > 0 AND m.response_status BETWEEN 200 AND 299
                AND (m.accepted_at > :since OR m.synced_at > :now))
        """
    )

    static let successStatements = [successShape, successStatement]
}
