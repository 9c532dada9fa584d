import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

extension Administration {
    /// Corrects those parts of a restored database that were valid only at the time of the backup, such as leases.
    ///
    /// Call it before gateways use the database. A repeated call has only one effect: clients read the feed from the
    /// beginning again.
    ///
    /// A feed's new epoch is a random number, not the next number. With the next number, two restores of one backup
    /// would give the same epoch. After the second restore, the gateway would then accept cursors from the time between
    /// the two restores. Requests in flight are left to the lanes' workers, which treat the outcomes of these requests
    /// as unknown.
    package func setRightAfterRestore() async throws(Problem) -> RestoreReport {
        let change = Parameters(Int64.random(in: 1...0xffff_ffff_ffff))
        let time = Parameters(now())
        do {
            let results = try await pool.transaction { connection in
                try await connection.run(
                    [
                        Query(Self.expireLeasesStatement, time), Query(Self.expireTurnStatement),
                        Query(Self.changeEpochsStatement, change), Query(Self.forgetPagesStatement),
                        Query(Self.ownKeysStatement), Query(Self.reopenErasuresStatement, time),
                    ],
                    timeout: Self.restoreTimeout
                )
            }
            return RestoreReport(
                feeds: results[2].affected,
                lanes: results[0].affected,
                hadRetention: results[1].affected > 0,
                erasures: results[5].affected
            )
        } catch {
            throw failure.problem(error, doing: "correct the restored database")
        }
    }

    /// The timeout of the search for erased users, which reads every row.
    private static let restoreTimeout: Duration = .seconds(3_600)

    /// Counts the database sessions of other gateways. Sessions that PostgreSQL does not show to this role are not
    /// counted.
    package func otherSessions() async throws(Problem) -> Int {
        do {
            return Int(try await pool.run([Query(Self.sessionsStatement)])[0].read(0, 0, as: Int64.self))
        } catch {
            throw failure.problem(error, doing: "look for gateways")
        }
    }

    static let changeEpochsStatement = Statement(
        "restore_feeds",
        ["change"],
        "UPDATE feeds AS f SET epoch = f.epoch # :change"
    )

    /// Deletes the pages of local ids that pulls assigned and devices had not confirmed.
    ///
    /// The restored database lacks the history that shows which of these pages the devices received. Page numbers
    /// continue after the deleted pages.
    static let forgetPagesStatement = Statement(
        "restore_local_id_pages",
        """
        UPDATE local_id_pages AS p SET entity_types = NULL, local_ids = NULL, server_ids = NULL, are_integers = NULL
        WHERE p.entity_types IS NOT NULL
        """
    )

    static let expireLeasesStatement = Statement(
        "restore_lanes",
        ["ready_at"],
        "UPDATE lanes AS l SET ready_at = :ready_at WHERE l.lease_owner IS NOT NULL AND l.ready_at > :ready_at"
    )

    static let expireTurnStatement = Statement(
        "restore_retention",
        "UPDATE retention_runs AS r SET owner = NULL, expires_at = NULL WHERE r.owner IS NOT NULL"
    )

    /// Assigns each user's data key to the user who, according to the restored joins, owns the rows that the key seals.
    ///
    /// The keys come from a dump that is newer than the other restored tables. If a user was joined into another user
    /// between the two backups, the key is already assigned to the other user, but the restored rows still belong to
    /// the first user. Without this step, an erasure of the other user would destroy the first user's key, and an
    /// erasure of the first user would leave that key.
    static let ownKeysStatement = Statement(
        "restore_user_keys",
        """
        UPDATE user_keys AS k SET user_id = o.user_id
        FROM (
            SELECT x.organization_id, x.made_for, coalesce(j.into_id, x.made_for) AS user_id
            FROM user_keys x
            LEFT JOIN user_joins j
                ON j.organization_id = x.organization_id AND j.user_id = x.made_for AND j.closed_until IS NULL
        ) o
        WHERE k.organization_id = o.organization_id AND k.made_for = o.made_for AND k.user_id <> o.user_id
        """
    )

    /// Restarts the erasures of users whose data the backup restored, so that gateways erase these users again.
    ///
    /// The statement recognizes these users by their hashes. It checks all users of each organization that has erased a
    /// user.
    static let reopenErasuresStatement = Statement(
        "restore_erasures",
        ["started_at"],
        """
        UPDATE user_erasures AS e
        SET state = 'closing', user_ids = ARRAY[b.user_id] || ARRAY(
                SELECT j.user_id FROM user_joins j
                WHERE j.organization_id = b.organization_id AND j.into_id = b.user_id AND j.closed_until IS NULL),
            started_at = :started_at, walked_position = 0, attempts = 0, last_error = NULL, due_at = :started_at, finished_at = NULL
        FROM (
            SELECT k.organization_id, k.user_id, sha256(uuid_send(k.organization_id) || uuid_send(k.user_id)) AS user_hash
            FROM (
                SELECT x.organization_id, x.user_id FROM lanes x
                UNION SELECT x.organization_id, x.user_id FROM users x
                UNION SELECT x.organization_id, x.user_id FROM devices x
                UNION SELECT x.organization_id, x.user_id FROM user_subjects x
                UNION SELECT x.organization_id, x.user_id FROM user_keys x
                UNION SELECT x.organization_id, x.owner_id FROM entities x
                UNION SELECT x.organization_id, x.updated_by FROM entities x
                UNION SELECT x.organization_id, x.owner_id FROM parked_events x WHERE x.owner_id IS NOT NULL
            ) k
            WHERE k.organization_id IN (SELECT y.organization_id FROM user_erasures y)
        ) b
        WHERE e.organization_id = b.organization_id AND e.user_hash = b.user_hash AND e.state <> 'closing'
        """
    )

    static let sessionsStatement = Statement(
        "restore_sessions",
        """
        SELECT count(*) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name IN ('sluice', 'sluice direct') AND a.pid <> pg_backend_pid()
        """,
        // on a Citus cluster, gateways may be connected to any server
        variant: """
            SELECT count(*) FROM citus_stat_activity a
            WHERE a.datname = current_database() AND a.application_name IN ('sluice', 'sluice direct')
                AND NOT a.is_worker_query AND a.global_pid <> citus_backend_gpid()
            """
    )

    package static let restoreStatements = [
        changeEpochsStatement, forgetPagesStatement, ownKeysStatement, reopenErasuresStatement, expireLeasesStatement,
        expireTurnStatement, sessionsStatement,
    ]
}

/// The corrections to a database that was restored from a backup.
package struct RestoreReport: Sendable {
    /// The number of organizations whose older cursors are now refused with `cursor_expired`.
    package let feeds: Int
    /// The number of lanes that were under a worker's lease at the time of the backup. Other workers can now claim
    /// these lanes immediately.
    package let lanes: Int
    /// Whether retention was running when the backup was made.
    package let hadRetention: Bool
    /// The number of users who were erased after the backup, and are erased again.
    package let erasures: Int
}
