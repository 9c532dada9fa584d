import CommandSupport
import Postgres
import SyncDispatch
import SyncModel
import SyncStore
import SyncUpstream

struct DatabaseExamination {
    let settings: Settings
    let reader: HTTPReader

    func diagnoses() async -> [Diagnosis] {
        do {
            let pooling = try await Pooling.check(at: settings.databaseURL)
            if pooling == .shared { return [pooler(pooling)] }
            let facts = try await SchemaCheck.withConnection(to: settings.databaseURL) {
                try await DatabaseFacts(on: $0)
            }
            let diagnoses =
                [reached(facts), pooler(pooling), encoding(facts)] + durability(facts)
                + [autovacuum(facts), connections(facts), clock(facts)]
            let schema = await schema()
            guard schema.status == .ok else { return diagnoses + [schema] }
            let cluster = await ClusterExamination(settings: settings).diagnoses()
            return diagnoses + [schema, await role(), await masterKeys()] + cluster + (await upstreams())
                + (await features())
        } catch let error as PostgresError where error.isOfConnection {
            let failure = ConnectionFailure(error)
            let cure = failure.cure.prefix(1).uppercased() + failure.cure.dropFirst()
            let advice = "\(cure). `sluice serve` starts without it and recovers."
            return [.failed("database", failure.finding + settings.databaseHint, advice)]
        } catch {
            return [
                .failed(
                    "database",
                    "cannot be queried: \(error.userMessage)\(settings.databaseHint)",
                    "Correct \(Setting.databaseURL.variable)."
                )
            ]
        }
    }

    private func reached(_ facts: DatabaseFacts) -> Diagnosis {
        let finding = "\(facts.name) on PostgreSQL \(facts.version)"
        if facts.versionNumber >= 150_000 { return .ok("database", finding) }
        return .failed("database", finding, "Use PostgreSQL 15 or later.")
    }

    private func pooler(_ pooling: Pooling) -> Diagnosis {
        switch pooling {
        case .none: .ok("pooler", "no pooler detected")
        case .session: .warning("pooler", PoolerAdvice.notice, "Ensure that its limits suffice for all gateways.")
        case .shared: .failed("pooler", "\(PoolerAdvice.refusal): \(PoolerAdvice.reason)", PoolerAdvice.remedy)
        }
    }

    private func encoding(_ facts: DatabaseFacts) -> Diagnosis {
        if facts.encoding == "UTF8" { return .ok("encoding", facts.encoding) }
        return .failed("encoding", facts.encoding, "Recreate the database with ENCODING 'UTF8'.")
    }

    private func durability(_ facts: DatabaseFacts) -> [Diagnosis] {
        var diagnoses: [Diagnosis] = []
        if facts.fsync != "on" {
            let finding = "is \(facts.fsync): a crash can corrupt the database"
            diagnoses.append(.failed("fsync", finding, "Set fsync = on in postgresql.conf."))
        }
        if facts.fullPageWrites != "on" {
            let finding = "is \(facts.fullPageWrites): a crash can leave torn pages"
            let advice = "Set full_page_writes = on, unless the file system writes pages atomically."
            diagnoses.append(.warning("full_page_writes", finding, advice))
        }
        if facts.synchronousCommit == "off" {
            let finding = "is off: a crash can lose acknowledged pushes"
            diagnoses.append(.failed("synchronous_commit", finding, "Set synchronous_commit = on."))
        }
        return diagnoses.isEmpty ? [.ok("durability", "committed data survives a crash")] : diagnoses
    }

    private func connections(_ facts: DatabaseFacts) -> Diagnosis {
        // in addition to the pool and the committers, one connection listens; on a Citus cluster, another connection
        // checks the servers
        let needed = settings.databasePoolSize + settings.committerConnections + (facts.hasCitus ? 2 : 1)
        let available = min(facts.maximumConnections - facts.reservedConnections, facts.connectionLimit ?? .max)
        let finding = "a gateway uses up to \(needed) of \(available)"
        if needed <= available { return .ok("connections", finding) }
        let advice =
            "Raise max_connections or the CONNECTION LIMIT of the role or database, or lower "
            + "\(Setting.databasePoolSize.variable)."
        return .failed("connections", finding, advice)
    }

    private func autovacuum(_ facts: DatabaseFacts) -> Diagnosis {
        if facts.autovacuum == "on", facts.trackCounts == "on" { return .ok("autovacuum", "on") }
        let setting = facts.autovacuum == "on" ? "track_counts" : "autovacuum"
        let finding = "\(setting) is off: tables grow, and plans become outdated"
        return .failed("autovacuum", finding, "Set autovacuum = on and track_counts = on in postgresql.conf.")
    }

    private func clock(_ facts: DatabaseFacts) -> Diagnosis {
        let milliseconds = Int((facts.clockSkew * 1_000).rounded())
        let direction = milliseconds < 0 ? "behind" : "ahead of"
        let finding = "the database is \(abs(milliseconds)) ms \(direction) this host"
        if abs(milliseconds) <= 1_000 { return .ok("clock", finding) }
        let advice =
            "Synchronize both clocks (NTP): this host's clock determines the expiry of tokens and the times shown."
        return .warning("clock", finding, advice)
    }

    private func schema() async -> Diagnosis {
        switch await SchemaCheck.check(at: settings.databaseURL) {
        case .ready: .ok("schema", "up to date")
        case .shared: .failed("schema", "cannot be read through a pooler that shares sessions", PoolerAdvice.remedy)
        case .empty: .failed("schema", "the database is empty", "Run: sluice migrate")
        case .behind(let pending): .failed("schema", "is missing \(SchemaCheck.list(pending))", "Run: sluice migrate")
        case .unfit(let reason):
            .failed("schema", reason, "Use a separate database for Sluice, and the version that migrated it.")
        case .unreachable(let failure): .failed("schema", failure.userMessage, "Try again.")
        }
    }

    private func role() async -> Diagnosis {
        do {
            let facts = try await SchemaCheck.withConnection(to: settings.databaseURL) { try await RoleFacts(on: $0) }
            return facts.diagnosis
        } catch {
            return .failed("role", "cannot be determined: \(error.userMessage)", "Try again.")
        }
    }

    private func masterKeys() async -> Diagnosis {
        let (subject, variable) = ("master keys", Setting.masterKeyFile.variable)
        let store = settings.commandStore()
        let found: MasterKeysInUse
        do {
            found = try await store.masterKeysInUse()
            await store.close()
        } catch {
            await store.close()
            return .failed(subject, "the data keys cannot be counted: \(error.userMessage)", "Try again.")
        }
        guard found.missing.isEmpty else {
            let finding = found.missing.joined(separator: "; ")
            let advice =
                "Add it to \(variable) again, but not as the first line. Data encrypted with it is unavailable."
            return found.isAnyKnown ? .warning(subject, finding, advice) : .failed(subject, finding, advice)
        }
        if found.openable > 0 { return .ok(subject, "unwrap all \(found.openable) data keys") }
        return .ok(subject, settings.masterKeys == nil ? "not set; nothing is encrypted" : "no data key exists yet")
    }

    private func features() async -> [Diagnosis] {
        var diagnoses: [Diagnosis] = []
        for feature in InstalledFeatures.list { diagnoses += await feature.diagnoses(settings) }
        return diagnoses
    }

    private func upstreams() async -> [Diagnosis] {
        do {
            let list = try await SchemaCheck.withConnection(to: settings.databaseURL) {
                try await UpstreamExamination.addresses(on: $0)
            }
            return await UpstreamExamination(reader: reader).diagnoses(of: list)
        } catch {
            return [.failed("upstreams", "cannot be listed: \(error.userMessage)", "Try again.")]
        }
    }
}

// MARK: - DatabaseFacts

struct DatabaseFacts: Sendable {
    let name: String
    /// The value of `server_version_num`: 150004 for 15.4.
    let versionNumber: Int
    let version: String
    let encoding: String
    let fsync: String
    let synchronousCommit: String
    let fullPageWrites: String
    let maximumConnections: Int
    let reservedConnections: Int
    /// The lower of the role's and the database's connection limits; nil if neither has a limit.
    let connectionLimit: Int?
    let hasCitus: Bool
    let autovacuum: String
    let trackCounts: String
    /// The time by which the server's clock is ahead of the host's clock, in seconds. The error of this value is at
    /// most half of the query's duration.
    let clockSkew: Double

    init(on connection: Connection) async throws {
        let before = SystemClock.now()
        let clock = try await connection.run(Query(Self.clock))
        let after = SystemClock.now()
        let middle = before.microseconds + (after.microseconds - before.microseconds) / 2
        clockSkew = Double(try clock.read(0, 0, as: Timestamp.self).microseconds - middle) / 1_000_000

        let rows = try await connection.run(Query(Self.settings))
        name = try rows.read(0, 0)
        versionNumber = Int(try rows.read(0, 1, as: String.self)) ?? 0
        version = try rows.read(0, 2)
        encoding = try rows.read(0, 3)
        fsync = try rows.read(0, 4)
        synchronousCommit = try rows.read(0, 5)
        fullPageWrites = try rows.read(0, 6)
        maximumConnections = Int(try rows.read(0, 7, as: String.self)) ?? 0
        reservedConnections = Int(try rows.read(0, 8, as: String.self)) ?? 0
        autovacuum = try rows.read(0, 9)
        trackCounts = try rows.read(0, 10)
        hasCitus = try rows.read(0, 13)
        connectionLimit = [try rows.read(0, 11, as: String.self), try rows.read(0, 12, as: String.self)].compactMap(
            Int.init
        ).filter { $0 >= 0 }.min()
    }

    private static let clock = Statement("doctor_clock", "SELECT clock_timestamp()")

    private static let settings = Statement(
        "doctor_settings",
        """
        SELECT current_database()::text, current_setting('server_version_num'), current_setting('server_version'),
            current_setting('server_encoding'), current_setting('fsync'), current_setting('synchronous_commit'),
            current_setting('full_page_writes'), current_setting('max_connections'),
            current_setting('superuser_reserved_connections'), current_setting('autovacuum'),
            current_setting('track_counts'),
            coalesce((SELECT rolconnlimit::text FROM pg_roles WHERE rolname = current_user), '-1'),
            coalesce((SELECT datconnlimit::text FROM pg_database WHERE datname = current_database()), '-1'),
            EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
        """
    )
}

// MARK: - RoleFacts

/// The rights of the gateway's role.
struct RoleFacts: Sendable {
    let name: String
    let isSuperuser: Bool
    let bypassesRowSecurity: Bool
    /// The number of the gateway's tables that belong to the role, or to a role of which it is a member.
    let ownedTables: Int
    /// Tables with missing rights: `lanes (DELETE)`.
    let missing: [String]

    init(on connection: Connection) async throws {
        let rows = try await connection.run([Query(Self.role), Query(Self.rights)])
        name = try rows[0].read(0, 0)
        isSuperuser = try rows[0].read(0, 1)
        bypassesRowSecurity = try rows[0].read(0, 2)
        var owned = 0
        var missing: [String] = []
        for row in 0..<rows[1].count {
            if try rows[1].read(row, 1) { owned += 1 }
            let rights: String = try rows[1].read(row, 2)
            if !rights.isEmpty { missing.append("\(try rows[1].read(row, 0, as: String.self)) (\(rights))") }
        }
        ownedTables = owned
        self.missing = missing
    }

    var diagnosis: Diagnosis {
        if !missing.isEmpty {
            let finding = "\(name) has no rights on \(missing.joined(separator: ", "))"
            return .failed("role", finding, "GRANT them to the role, as the owner of the tables.")
        }
        let advice =
            "Let the gateway connect as a role that owns nothing and may SELECT, INSERT, UPDATE and DELETE only."
        if isSuperuser { return .warning("role", "\(name) is a superuser with unrestricted access", advice) }
        if ownedTables > 0 {
            return .warning(
                "role",
                "\(name) owns \(ownedTables) of the tables, so it could change or drop them",
                advice
            )
        }
        if bypassesRowSecurity {
            return .warning("role", "\(name) has BYPASSRLS", "ALTER ROLE … NOBYPASSRLS; the gateway does not need it.")
        }
        return .ok("role", "\(name) owns no tables, and has all required rights")
    }

    private static let role = Statement(
        "doctor_role",
        "SELECT rolname::text, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    )

    /// The rights that `sql/roles.sql` grants to gateways.
    ///
    /// Gateways only read the list of migrations. Gateways may delete bindings of readers, as a purge does, but may not
    /// insert or update them.
    private static let rights = Statement(
        "doctor_rights",
        """
        SELECT c.relname::text, pg_has_role(c.relowner, 'USAGE'), coalesce((
            SELECT string_agg(r.name, ', ' ORDER BY r.position)
            FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY r (name, position)
            WHERE NOT has_table_privilege(c.oid, r.name)
                AND (r.name = 'SELECT' OR c.relname NOT IN ('schema_migrations', 'schema_migrations_lock'))
                AND (r.name IN ('SELECT', 'DELETE') OR c.relname <> 'readers')), '')
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        ORDER BY c.relname
        """
    )
}
