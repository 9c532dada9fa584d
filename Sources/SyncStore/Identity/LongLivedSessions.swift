import FoundationEssentials
import Postgres
package import SyncModel

/// A caller with a long-lived connection, such as a stream of events.
package struct LongLivedSession: Sendable, Hashable {
    /// The user, and the organization of the token.
    package let lane: LaneKey
    /// The organization's name in the token; nil if the token contains the organization's id.
    package let name: ExternalID?

    package init(lane: LaneKey, name: ExternalID?) {
        self.lane = lane
        self.name = name
    }
}

/// Finds the callers that must no longer be served.
///
/// Separate checks would need several look-ups for each caller every few seconds. This type checks a thousand callers
/// in one statement. The type reads the database without the cache, so that the cache does not delay the result.
package struct LongLivedSessions: Sendable {
    /// The maximum number of callers that one statement checks.
    static let page = 1_000

    let pool: Pool
    let cluster: Cluster
    let failure: StoreFailure

    /// Returns the callers that may no longer be served, or that may no longer be served as this user.
    ///
    /// The reason is one of these: the organization is not active, or has lost the name in the token; or the user was
    /// excluded, erased or joined into another user.
    package func lost(among callers: [LongLivedSession]) async throws(Problem) -> [LongLivedSession] {
        var lost: [LongLivedSession] = []
        for start in stride(from: 0, to: callers.count, by: Self.page) {
            let page = Array(callers[start..<min(start + Self.page, callers.count)])
            for part in cluster.parts(page, by: \.lane.organization) { lost += try await self.lost(amongSome: part) }
        }
        return lost
    }

    private func lost(amongSome part: [LongLivedSession]) async throws(Problem) -> [LongLivedSession] {
        do {
            let found = try await pool.runByIndex(Self.lost(among: part))
            return try found.read { part[Int(try $0.read("place", as: Int64.self)) - 1] }
        } catch {
            throw failure.problem(error, doing: "check which listeners are still served")
        }
    }

    static func lost(among callers: [LongLivedSession]) -> Query {
        statement(
            organizations: callers.map(\.lane.organization),
            users: callers.map(\.lane.user),
            issuers: callers.map { $0.name?.issuer.string ?? "" },
            names: callers.map { $0.name?.id.string ?? "" }
        )
    }

    /// In `names`, an empty text means that the token has no name. Each condition is a subquery that returns a value,
    /// because with EXISTS the planner would read a whole table.
    private static let statement = Statement(
        "lasting_callers_lost",
        ["organizations", "users", "issuers", "names"],
        """
        SELECT k.place
        FROM unnest(:organizations::uuid[], :users::uuid[], :issuers::text[], :names::text[])
            WITH ORDINALITY AS k (organization_id, user_id, issuer, name, place)
        LEFT JOIN LATERAL (
            SELECT x.status, x.settings ->> 'provisioning' AS provisioning FROM organizations x
            WHERE x.id = k.organization_id
            OFFSET 0
        ) o ON true
        WHERE o.status IS DISTINCT FROM 'active'
            OR (k.name <> '' AND (SELECT n.organization_id FROM external_ids n
                WHERE n.issuer = k.issuer AND n.external_id = k.name) IS DISTINCT FROM k.organization_id)
            OR (o.provisioning = 'explicit' AND (SELECT u.user_id FROM users u
                WHERE u.organization_id = k.organization_id AND u.user_id = k.user_id) IS NULL)
            OR (SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = k.organization_id AND j.user_id = k.user_id AND j.closed_until IS NULL)
                IS NOT NULL
            OR \(ErasedUsers.isErased("k.organization_id", "k.user_id"))
        """
    )

    static let statements = [statement]
}
