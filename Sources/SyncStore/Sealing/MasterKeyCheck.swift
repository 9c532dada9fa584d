import Postgres
import SyncModel
import Synchronization

/// Checks whether the configured master keys unwrap the stored data keys.
final class MasterKeyCheck: Sendable {
    /// The time for which a result is valid. Checks are not more frequent, because each check reads the data keys of
    /// every organization.
    private static let interval: Duration = .seconds(60)

    private struct Inspection {
        let at: ContinuousClock.Instant
        let missing: [String]
        let anyKnown: Bool
    }

    private let pool: Pool
    private let cluster: Cluster
    private let masterKeys: MasterKeys?
    private let last = Mutex<Inspection?>(nil)

    init(pool: Pool, cluster: Cluster, masterKeys: MasterKeys?) {
        self.pool = pool
        self.cluster = cluster
        self.masterKeys = masterKeys
    }

    /// The maximum number of users' keys that are counted for each master key, because there can be millions of keys.
    static let counted = 10_000

    /// Returns the master keys that wrap the stored data keys and users' keys.
    func inspect() async throws -> MasterKeysInUse {
        let rows = try await pool.run([Query(Self.mastersStatement)])[0]
        let counts = try rows.read {
            (label: try $0.read("master_key", as: String.self), count: try $0.read("count", as: Int64.self))
        }
        return MasterKeysInUse(counts: counts, masterKeys)
    }

    /// Returns the missing master keys as text. Checks again if the last result is older than a minute.
    func missing() async throws -> ([String], anyKnown: Bool) {
        let before = last.withLock { $0 }
        if let before, .now - before.at < Self.interval { return (before.missing, before.anyKnown) }
        let found: MasterKeysInUse
        do {
            found = try await cluster.isThere ? within(.seconds(1)) { try await self.inspect() } : inspect()
        } catch let error as PostgresError
            where cluster.isThere
            && (error.kind == .timedOut || error.sqlState != nil && error.isUnavailable
                || !cluster.servers.silent.isEmpty)
        {
            // a server of the Citus cluster is unavailable or hangs, but the gateway still serves the organizations of
            // the other servers
            let seen = Inspection(at: .now, missing: before?.missing ?? [], anyKnown: before?.anyKnown ?? true)
            last.withLock { $0 = seen }
            return (seen.missing, seen.anyKnown)
        }
        last.withLock { $0 = Inspection(at: .now, missing: found.missing, anyKnown: found.isAnyKnown) }
        return (found.missing, found.isAnyKnown)
    }

    /// The missing master keys of the last check. Empty if no stored data key can be unwrapped, because then no
    /// requests are served, and ``Store/readiness()`` returns the missing keys.
    var notices: [String] { last.withLock { $0.flatMap { $0.anyKnown ? $0.missing : nil } ?? [] } }

    static let mastersStatement = Statement(
        "organization_keys_masters",
        """
        WITH RECURSIVE m (master_key) AS (
            (SELECT k.master_key FROM user_keys k ORDER BY k.master_key LIMIT 1)
            UNION ALL
            SELECT (SELECT k.master_key FROM user_keys k WHERE k.master_key > m.master_key ORDER BY k.master_key LIMIT 1)
            FROM m WHERE m.master_key IS NOT NULL
        )
        SELECT x.master_key, sum(x.count)::int8 AS count
        FROM (
            SELECT k.master_key, count(*) AS count FROM organization_keys k GROUP BY k.master_key
            UNION ALL
            SELECT m.master_key, (
                SELECT count(*) FROM (
                    SELECT 1 FROM user_keys k WHERE k.master_key = m.master_key LIMIT \(counted)) y)
            FROM m WHERE m.master_key IS NOT NULL
        ) x
        GROUP BY x.master_key ORDER BY x.master_key
        """,
        // on Citus, a recursive query would need all servers at each step; therefore each server groups and counts its
        // own keys
        variant: """
            SELECT x.master_key, sum(x.count)::int8 AS count
            FROM (
                SELECT k.master_key, count(*) AS count FROM organization_keys k GROUP BY k.master_key
                UNION ALL
                SELECT k.master_key, count(*) AS count FROM user_keys k GROUP BY k.master_key
            ) x
            GROUP BY x.master_key ORDER BY x.master_key
            """
    )

    static let statements = [mastersStatement]
}

/// The master keys that wrap stored data keys, compared with the configured master keys.
package struct MasterKeysInUse: Sendable {
    typealias Count = (label: String, count: Int64)

    private let known: [Count]
    let unknown: [Count]

    init(counts: [Count], _ masterKeys: MasterKeys?) {
        known = counts.filter { masterKeys?[$0.label] != nil }
        unknown = counts.filter { masterKeys?[$0.label] == nil }
    }

    /// The number of data keys that the configured master keys unwrap.
    ///
    /// The number includes at most ``MasterKeyCheck/counted`` users' keys for each master key.
    package var openable: Int64 { known.reduce(0) { $0 + $1.count } }

    /// Whether any data key can be unwrapped. The value is also true if there are no data keys.
    package var isAnyKnown: Bool { unknown.isEmpty || !known.isEmpty }

    /// Messages that name the missing master keys; empty if all of them are configured.
    package var missing: [String] {
        unknown.map { "\($0.count) data keys are wrapped by master key \($0.label), which is not configured" }
    }
}
