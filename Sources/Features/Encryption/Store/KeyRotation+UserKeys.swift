import Foundation
import Postgres
import SyncModel
import SyncStore

extension LaneKey {
    /// The first lane behind this one; nil at the end.
    fileprivate var successor: LaneKey? {
        if let next = user.successor { return LaneKey(organization: organization, user: next) }
        return organization.successor.map { LaneKey(organization: $0, user: UUID.least) }
    }
}

/// Users' own keys under another master key.
extension KeyRotation {
    /// Wraps every user's key by the first master key, a page at a time.
    ///
    /// - Parameters:
    ///   - counts: of data keys so far; continues from these.
    ///   - progress: called with the number of keys rewrapped so far.
    func rewrapUserKeys(
        by master: MasterKey,
        knowing masters: MasterKeys,
        _ counts: inout (rewrapped: Int, unknown: Int),
        _ progress: (Int) -> Void
    ) async throws(Problem) {
        var last = LaneKey(organization: UUID.least, user: UUID.least)
        do {
            while true {
                let parameters = Parameters(of: last, master.label, Self.page)
                let found = try await pool.runByIndex(Query(Self.userPageStatement, parameters))
                let keys = try found.read(UserKeyRows.key)
                guard let end = keys.last else { return }
                var queries: [Query] = []
                for key in keys {
                    guard masters[key.masterKey] != nil else {
                        counts.unknown += 1
                        continue
                    }
                    let new = try key.rewrapped(by: master, knowing: masters)
                    queries.append(Self.replace(key, by: new))
                }
                if !queries.isEmpty { _ = try await pool.run(queries) }
                counts.rewrapped += queries.count
                progress(counts.rewrapped)
                // clients choose ids: the least UUID is one, too
                guard let next = end.name.successor else { return }
                last = next
            }
        } catch {
            throw failure.problem(error, doing: "rewrap users' keys")
        }
    }

    private static func replace(_ old: WrappedUserKey, by new: WrappedUserKey) -> Query {
        Query(
            userReplaceStatement,
            Parameters(of: old.name, old.masterKey, new.masterKey, BytesParameter.bytea(new.bytes))
        )
    }

    static let userPageStatement = Statement(
        "user_keys_page",
        """
        SELECT \(UserKeyRows.columns)
        FROM user_keys k
        WHERE (k.organization_id, k.made_for) >= ($1, $2) AND k.master_key <> $3
        ORDER BY k.organization_id, k.made_for
        LIMIT $4
        """
    )

    static let userReplaceStatement = Statement(
        "user_keys_replace",
        """
        UPDATE user_keys SET master_key = $4, wrapped_key = $5
        WHERE organization_id = $1 AND made_for = $2 AND master_key = $3
        """
    )

    static let userStatements = [userPageStatement, userReplaceStatement]
}
