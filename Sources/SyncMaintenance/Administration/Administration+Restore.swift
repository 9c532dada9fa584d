import Foundation
import Postgres
package import SyncModel
import SyncStore

extension Administration {
    /// Corrects the state that a restored database has from the time of its backup. To be done before gateways work on
    /// it; repeating it only makes clients start over once more.
    ///
    /// A feed's new epoch is random and not the next number: a backup that is restored twice must not accept the
    /// cursors made after the first restore. What was in flight is left to the lanes' workers, who treat it as
    /// requests of unknown outcome.
    package func setRightAfterRestore() async throws(Problem) -> RestoreReport {
        let change = Parameters(Int64.random(in: 1...0xffff_ffff_ffff))
        let time = Parameters(now())
        do {
            let results = try await pool.transaction { connection in
                try await connection.run(
                    [
                        Query(Self.expireLeasesStatement, time), Query(Self.expireTurnStatement),
                        Query(Self.changeEpochsStatement, change), Query(Self.forgetPagesStatement),
                    ],
                    timeout: .seconds(60)
                )
            }
            return RestoreReport(
                feeds: results[2].affected,
                lanes: results[0].affected,
                hadRetention: results[1].affected > 0
            )
        } catch {
            throw failure.problem(error, doing: "set right what was restored")
        }
    }

    /// Counts the sessions of other gateways on the database, as far as the role can see them.
    package func otherSessions() async throws(Problem) -> Int {
        do {
            return Int(try await pool.run([Query(Self.sessionsStatement)])[0].int64(0, 0))
        } catch {
            throw failure.problem(error, doing: "look for gateways")
        }
    }

    static let changeEpochsStatement = Statement("restore_feeds", "UPDATE feeds AS f SET epoch = f.epoch # $1")

    /// Assignments of pulls that their devices had not confirmed: which pages the devices received belongs to a
    /// history that the restored database lacks. Page numbers continue from there.
    static let forgetPagesStatement = Statement(
        "restore_local_id_pages",
        """
        UPDATE local_id_pages AS p SET entity_types = NULL, local_ids = NULL, server_ids = NULL, are_integers = NULL
        WHERE p.entity_types IS NOT NULL
        """
    )

    static let expireLeasesStatement = Statement(
        "restore_lanes",
        "UPDATE lanes AS l SET ready_at = $1 WHERE l.lease_owner IS NOT NULL AND l.ready_at > $1"
    )

    static let expireTurnStatement = Statement(
        "restore_retention",
        "UPDATE retention_runs AS r SET owner = NULL, expires_at = NULL WHERE r.owner IS NOT NULL"
    )

    static let sessionsStatement = Statement(
        "restore_sessions",
        """
        SELECT count(*) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name = 'sluice' AND a.pid <> pg_backend_pid()
        """
    )

    static let restoreStatements = [
        changeEpochsStatement, forgetPagesStatement, expireLeasesStatement, expireTurnStatement,
        sessionsStatement,
    ]
}
