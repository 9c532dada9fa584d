package import Postgres
import SyncModel

/// The statements of an erasure or a merge of users on tables for which no general statement suffices.
package enum UserMoves {
    // MARK: - Erasure

    /// Parameters as for ``StoredTable/Erase/batches(_:keep:)``.
    package static let eraseSubjects = Statement(
        "erase_user_subjects",
        """
        WITH gone AS (
            DELETE FROM user_subjects AS x
            USING (
                SELECT y.organization_id, y.issuer, y.subject FROM user_subjects y
                WHERE y.organization_id = $1 AND y.user_id = $2
                LIMIT $4
            ) k
            WHERE x.organization_id = k.organization_id AND x.issuer = k.issuer AND x.subject = k.subject
            RETURNING x.issuer, x.subject
        )
        SELECT \(ErasedUsers.subjectHash(salt: "z.salt", issuer: "g.issuer", subject: "g.subject")) AS hash,
            CASE WHEN $3::bytea IS NULL THEN $3::bytea END AS known_hash
        FROM gone g
        CROSS JOIN (SELECT y.salt FROM erasure_salts y WHERE y.organization_id = $1) z
        """
    )

    /// Keeps hashes of subjects, of which nothing else is known.
    ///
    /// - Parameters: organization, the user's hash, hashes of subjects, and as many nulls.
    package static let keepSubjects = Statement(
        "erase_keep_subjects",
        """
        INSERT INTO erased_subjects AS s (organization_id, subject_hash, user_hash)
        SELECT $1::uuid, k.subject_hash, $2::bytea
        FROM unnest($3::bytea[], $4::bytea[]) AS k (subject_hash, nothing)
        ON CONFLICT (organization_id, subject_hash) DO NOTHING
        """
    )

    static let eraseJoins = Statement(
        "erase_joins",
        """
        DELETE FROM user_joins AS j
        WHERE j.organization_id = $1 AND (j.user_id = ANY ($2::uuid[]) OR j.into_id = ANY ($2::uuid[]))
        """
    )

    static let eraseParkedEvents = Statement(
        "erase_parked_events",
        """
        DELETE FROM parked_events AS x
        USING unnest($2::text[], $3::text[]) AS k (source, event_id)
        WHERE x.organization_id = $1 AND x.source = k.source AND x.event_id = k.event_id
            AND x.owner_id = ANY ($4::uuid[])
        """
    )

    // MARK: - Merge

    static let mergeMutations = Statement(
        "join_mutations",
        """
        UPDATE mutations AS m
        SET user_id = $3, key_user_id = coalesce(m.key_user_id, m.user_id), position = m.position + $4,
            change_position = m.change_position + $5
        WHERE m.organization_id = $1 AND m.user_id = $2
        """
    )

    static let mergeMappings = Statement(
        "join_mappings",
        """
        -- a use is noted because the mutations that named them move behind younger ones (MappingNeed)
        UPDATE id_mappings AS i SET user_id = $3, change_position = i.change_position + $4, last_used_at = $5
        WHERE i.organization_id = $1 AND i.user_id = $2
        """
    )

    /// A merge provisions no user: if an operator provisions users, a user who is blocked in the meantime stays blocked.
    static let isNotProvisioned =
        "(SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = $1) IS DISTINCT FROM 'explicit'"
}
