import Foundation
import Postgres
import SyncModel

/// Finds blocked mutations that are settled all the same: what they wait for, directly or through others, has failed
/// or is in conflict, so that nothing but a person moves them.
struct Settledness: Sendable {
    let pool: Pool
    let failure: StoreFailure

    /// Follows dependencies from blocked mutation to blocked mutation; UNION drops what was seen, so a walk ends.
    static let statement = Statement(
        "settledness_stuck",
        """
        WITH RECURSIVE walk (root, id, status, depends_on) AS (
            SELECT m.id, m.id, m.status, m.depends_on
            FROM mutations m
            WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
            UNION
            SELECT w.root, d.id, d.status, d.depends_on
            FROM walk w
            JOIN mutations d ON d.organization_id = $1 AND d.user_id = $2 AND d.id = ANY (w.depends_on)
            WHERE w.status = 'blocked'
        )
        SELECT DISTINCT root FROM walk WHERE status IN ('failed', 'conflict')
        """
    )

    /// The stuck ones among what a push came to.
    func stuck(
        among verdicts: [PushVerdict],
        organization: UUID,
        user: UUID
    ) async throws(Problem) -> Set<UUID> {
        let blocked = verdicts.compactMap(\.record).filter { $0.status == .blocked }.map(\.id)
        return try await stuck(blocked, organization: organization, user: user)
    }

    func stuck(_ blocked: [UUID], organization: UUID, user: UUID) async throws(Problem) -> Set<UUID> {
        guard !blocked.isEmpty else { return [] }
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(user)
        parameters.add(blocked)
        do {
            let rows = try await pool.run([Query(Self.statement, parameters)])[0]
            return Set(try (0..<rows.count).map { try rows.uuid($0, 0) })
        } catch {
            throw failure.problem(error, doing: "look for what blocks mutations")
        }
    }
}
