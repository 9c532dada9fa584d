package import Postgres
package import SyncModel

/// Rows of `user_keys`.
package enum UserKeyRows {
    package static let columns = "k.organization_id, k.made_for, k.master_key, k.wrapped_key"

    /// Reads the columns of ``columns``.
    package static func key(_ row: inout RowReader) throws -> WrappedUserKey {
        WrappedUserKey(
            name: LaneKey(organization: try row.uuid("organization_id"), user: try row.uuid("made_for")),
            masterKey: try row.string("master_key"),
            bytes: try row.bytes("wrapped_key")
        )
    }

    /// The keys that were made for users.
    static let readStatement = Statement(
        "user_keys_read",
        ["organizations", "users"],
        """
        SELECT \(columns)
        FROM unnest(:organizations::uuid[], :users::uuid[]) AS o (organization_id, made_for)
        CROSS JOIN LATERAL (
            SELECT * FROM user_keys x
            WHERE x.organization_id = o.organization_id AND x.made_for = o.made_for
            OFFSET 0
        ) k
        """
    )

    /// Inserts keys for users without one: if two gateways make one, the first counts.
    ///
    /// Holds the organizations' rows, so that a purge, which changes them first, leaves no key behind. For a user whose
    /// rows are gone no key is made: its erasure may have destroyed one already.
    static let makeStatement = Statement(
        "user_keys_make",
        ["organizations", "users", "master_key", "wrapped_keys", "now"],
        """
        INSERT INTO user_keys AS k (organization_id, made_for, user_id, master_key, wrapped_key, created_at)
        SELECT o.id, n.made_for, n.made_for, :master_key, n.wrapped_key, :now
        FROM unnest(:organizations::uuid[], :users::uuid[], :wrapped_keys::bytea[]) AS n (organization_id, made_for, wrapped_key)
        CROSS JOIN LATERAL (
            SELECT x.id FROM organizations x WHERE x.id = n.organization_id AND x.status <> 'purging' FOR SHARE
        ) o
        WHERE coalesce((
            SELECT e.state FROM user_erasures e
            WHERE e.organization_id = n.organization_id
                AND e.user_hash = sha256(uuid_send(n.organization_id) || uuid_send(n.made_for))), 'closing') = 'closing'
        ON CONFLICT (organization_id, made_for) DO NOTHING
        """
    )

    /// Destroys the keys of users (`users`), and of the users who were joined into them.
    package static let destroyStatement = Statement(
        "user_keys_destroy",
        ["organization", "users"],
        """
        DELETE FROM user_keys AS k
        WHERE k.organization_id = :organization AND (k.user_id = ANY (:users::uuid[]) OR k.made_for = ANY (:users::uuid[]))
        RETURNING k.made_for
        """
    )

    /// The keys of a user (`user`) are another's (`into`) from now on.
    package static let moveStatement = Statement(
        "user_keys_move",
        ["organization", "user", "into"],
        "UPDATE user_keys AS k SET user_id = :into WHERE k.organization_id = :organization AND k.user_id = :user"
    )

    static func read(_ users: [LaneKey]) -> Query {
        readStatement(organizations: users.map(\.organization), users: users.map(\.user))
    }

    static func make(_ keys: [WrappedUserKey], by label: String, at moment: Timestamp) -> Query {
        makeStatement(
            organizations: keys.map(\.name.organization),
            users: keys.map(\.name.user),
            master_key: label,
            wrapped_keys: BytesParameter.byteas(keys.map(\.bytes)),
            now: moment
        )
    }

    package static let statements = [readStatement, makeStatement, destroyStatement, moveStatement]
}
