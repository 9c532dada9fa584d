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
                let page = Self.userPageStatement(
                    first_organization: last.organization,
                    first_user: last.user,
                    master_key: master.label,
                    limit: Self.page
                )
                let found = try await pool.runByIndex(page)
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
        userReplaceStatement(
            organization: old.name.organization,
            user: old.name.user,
            master_key: old.masterKey,
            new_master_key: new.masterKey,
            wrapped_key: BytesParameter.bytea(new.bytes)
        )
    }

    static let userPageStatement = Statement(
        "user_keys_page",
        ["first_organization", "first_user", "master_key", "limit"],
        """
        SELECT \(UserKeyRows.columns)
        FROM user_keys k
        WHERE (k.organization_id, k.made_for) >= (:first_organization, :first_user) AND k.master_key <> :master_key
        ORDER BY k.organization_id, k.made_for
        LIMIT :limit
        """
    )

    static let userReplaceStatement = Statement(
        "user_keys_replace",
        ["organization", "user", "master_key", "new_master_key", "wrapped_key"],
        """
        UPDATE user_keys SET master_key = :new_master_key, wrapped_key = :wrapped_key
        WHERE organization_id = :organization AND made_for = :user AND master_key = :master_key
        """
    )

    static let userStatements = [userPageStatement, userReplaceStatement]
}
