package import Postgres
import SyncModel

/// Special statements for some tables in an erasure or a merge of users.
package enum UserMoves {
    // MARK: - Erasure

    /// Deletes the user's subjects. The parameters are those of ``StoredTable/Erase/batches(_:keep:)``.
    package static let eraseSubjects = Statement(
        "erase_user_subjects",
        ["organization", "user", "user_hash", "limit"],
        """
        WITH gone AS (
            DELETE FROM user_subjects AS x
            USING (
                SELECT y.organization_id, y.issuer, y.subject FROM user_subjects y
                WHERE y.organization_id = :organization AND y.user_id = :user
                LIMIT :limit
            ) k
            WHERE x.organization_id = k.organization_id AND x.issuer = k.issuer AND x.subject = k.subject
            RETURNING x.issuer, x.subject
        )
        SELECT \(ErasedUsers.subjectHash(salt: "z.salt", issuer: "g.issuer", subject: "g.subject")) AS hash,
            CASE WHEN :user_hash::bytea IS NULL THEN :user_hash::bytea END AS known_hash
        FROM gone g
        CROSS JOIN (SELECT y.salt FROM erasure_salts y WHERE y.organization_id = :organization) z
        """
    )

    /// Stores the hashes of deleted subjects. Nothing else remains of the subjects.
    ///
    /// - Parameter known_hashes: as many nulls as `hashes` has elements.
    package static let keepSubjects = Statement(
        "erase_keep_subjects",
        ["organization", "user_hash", "hashes", "known_hashes"],
        """
        INSERT INTO erased_subjects AS s (organization_id, subject_hash, user_hash)
        SELECT :organization::uuid, k.subject_hash, :user_hash::bytea
        FROM unnest(:hashes::bytea[], :known_hashes::bytea[]) AS k (subject_hash, nothing)
        ON CONFLICT (organization_id, subject_hash) DO NOTHING
        """
    )

    static let eraseJoins = Statement(
        "erase_joins",
        ["organization", "users"],
        """
        DELETE FROM user_joins AS j
        WHERE j.organization_id = :organization AND (j.user_id = ANY (:users::uuid[]) OR j.into_id = ANY (:users::uuid[]))
        """
    )

    static let eraseParkedEvents = Statement(
        "erase_parked_events",
        ["organization", "first_keys", "second_keys", "users"],
        """
        DELETE FROM parked_events AS x
        USING unnest(:first_keys::text[], :second_keys::text[]) AS k (source, event_id)
        WHERE x.organization_id = :organization AND x.source = k.source AND x.event_id = k.event_id
            AND x.owner_id = ANY (:users::uuid[])
        """
    )

    // MARK: - Merge

    static let mergeMutations = Statement(
        "join_mutations",
        ["organization", "user", "into", "positions", "changes"],
        """
        UPDATE mutations AS m
        SET user_id = :into, key_user_id = coalesce(m.key_user_id, m.user_id), position = m.position + :positions,
            change_position = m.change_position + :changes
        WHERE m.organization_id = :organization AND m.user_id = :user
        """
    )

    /// Moves the mappings, and records the merge as a use of each mapping.
    ///
    /// Retention keeps a mapping while the user has an idempotency record from before the mapping's last use, and takes
    /// the age of the oldest record from the user's first positions (``MappingNeed``). A merge can move older mutations
    /// behind younger ones. After that, the first positions can show an age that is too low. Without the recorded use,
    /// retention could then delete a mapping that a repeat still needs.
    ///
    /// Mappings that are never listed remain unlisted (``LocalID/retiredID(on:)``).
    static let mergeMappings = Statement(
        "join_mappings",
        ["organization", "user", "into", "changes", "now"],
        """
        UPDATE id_mappings AS i
        SET user_id = :into, last_used_at = :now,
            change_position = CASE WHEN i.change_position < 0 THEN i.change_position ELSE i.change_position + :changes END
        WHERE i.organization_id = :organization AND i.user_id = :user
        """
    )

    /// Moves the grants of the merged user (`user`) to the other user (`into`), and grants the merged user's own
    /// channel to the other user. The own channel is granted even if the organization has no channels yet.
    ///
    /// The grants begin at a new position, so that the devices of both users receive the entities. Grants that have
    /// already ended are not moved, and remain until retention deletes them.
    static let mergeGrants = Statement(
        "join_grants",
        ["organization", "user", "into"],
        """
        WITH raised AS (
            UPDATE feeds AS f SET last_position = f.last_position + 1
            WHERE f.organization_id = :organization
            RETURNING f.last_position AS position
        ), moved AS (
            UPDATE channel_grants AS g
            SET user_id = :into, since = r.position, changed_at = r.position
            FROM raised r
            WHERE g.organization_id = :organization AND g.user_id = :user AND g.until IS NULL
        )
        INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
        SELECT :organization::uuid, :into::uuid, encode(substring(sha256(convert_to(n.name, 'UTF8')) FOR 16), 'hex')::uuid,
            'user ' || :user::uuid, r.position, n.name, 'write', r.position
        FROM raised r
        CROSS JOIN (SELECT 'user/' || :user::uuid AS name) n
        """
    )

    /// SQL for whether users of the organization need not be provisioned by an operator.
    ///
    /// If an operator provisions users, a merge does not add the other user (`into`) to `users`. If it did, and the
    /// operator withdrew the provisioning while the merge was running, the merge would admit this user again.
    static let isNotProvisioned =
        "(SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = :organization) IS DISTINCT FROM 'explicit'"
}
