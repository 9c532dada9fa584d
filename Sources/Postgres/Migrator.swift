/// Applies the pending migrations of a database's schema, each file in one transaction.
///
/// The table `schema_migrations` records the applied migrations, with the SHA-256 of each migration's published text
/// before variables are replaced (``Migration/publishedChecksum``). Migrators that start at the same time take turns,
/// because each locks the only row of `schema_migrations_lock`. If a newer build has applied later migrations, the
/// database is not changed.
public struct Migrator: Sendable {
    private let migrations: [Migration]
    private let variables: [String: String]
    private let timeout: MigratorTimeouts

    /// Creates a migrator for these files.
    ///
    /// Each `:name` of a variable in a file is replaced by the variable's value, without quotes. A `:name` directly
    /// after a colon or an identifier is not replaced, so `::text` stays unchanged.
    public init(
        migrations: [Migration],
        variables: [String: String] = [:],
        timeout: MigratorTimeouts = MigratorTimeouts()
    ) {
        self.timeout = timeout
        self.migrations = migrations.sorted { $0.name < $1.name }
        self.variables = variables
    }

    /// Reads the applied and pending migrations. Changes nothing.
    ///
    /// Throws `MigratorError` if the applied migrations do not match the migrations of the build. Also throws
    /// `PostgresError`.
    public func status(on connection: Connection) async throws -> MigratorStatus {
        let rows = try await connection.run(Self.exists)
        let exists = try rows.read(0, 0, as: Bool.self)
        return try await plan(on: connection, tableExists: exists).status
    }

    /// The names of the pending migrations, in order. Throws the same errors as `status`.
    public func pending(on connection: Connection) async throws -> [String] {
        try await status(on: connection).pending
    }

    /// Applies pending migrations, and returns the names applied by this call, in order.
    ///
    /// The connection must not be in a transaction. Time-outs of statements do not apply. Instead, the migrator's own
    /// time-outs limit how long a migration waits for locks of other sessions. A failed migration has no effect. The
    /// migrations before the failed migration stay applied. Throws `MigratorError` and `PostgresError`.
    ///
    /// - Parameter onWait: called before each retry of a migration that waited too long for locks of other sessions.
    public func migrate(
        on connection: Connection,
        onWait: @Sendable (MigratorError) -> Void = { _ in }
    ) async throws -> [String] {
        try await createTables(on: connection)
        var applied: [String] = []
        while let name = try await applyNextInTime(on: connection, onWait: onWait) {
            applied.append(name)
        }
        return applied
    }

    private func applyNextInTime(
        on connection: Connection,
        onWait: @Sendable (MigratorError) -> Void
    ) async throws -> String? {
        let deadline = ContinuousClock.now + timeout.total
        while true {
            do {
                return try await applyNext(on: connection)
            } catch let failure as MigratorError {
                guard case .failed(_, let error) = failure, error.isRetryable, .now < deadline else { throw failure }
                onWait(failure)
                try await Task.sleep(for: timeout.pause)
            }
        }
    }
}

extension Migrator {
    private static let exists = Query(
        Statement("migrator_exists", "SELECT to_regclass('schema_migrations') IS NOT NULL")
    )

    private static let applied = Query(
        Statement("migrator_applied", "SELECT name, checksum FROM schema_migrations")
    )

    private static let checksums = Statement(
        "migrator_checksums",
        """
        SELECT encode(sha256(convert_to(file.text, 'UTF8')), 'hex')
        FROM unnest($1) WITH ORDINALITY AS file (text, position)
        ORDER BY file.position
        """
    )

    private static let lock = Query(
        Statement("migrator_lock", "SELECT FROM schema_migrations_lock FOR UPDATE")
    )

    private static let record = Statement(
        "migrator_record",
        "INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2)"
    )

    /// The script runs as one implicit transaction. Migrators that start at the same time may wait for each other,
    /// without a time limit.
    private static let tables = """
        SET LOCAL lock_timeout = 0;
        CREATE TABLE IF NOT EXISTS schema_migrations (
            name text PRIMARY KEY,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE TABLE IF NOT EXISTS schema_migrations_lock (
            only_row boolean PRIMARY KEY CHECK (only_row)
        );
        INSERT INTO schema_migrations_lock VALUES (true) ON CONFLICT DO NOTHING;
        """

    /// Creates the migrator's tables.
    ///
    /// CREATE … IF NOT EXISTS first checks whether the table exists, and then creates the table. If two migrators
    /// execute this statement at the same time, one migrator may violate a unique index of the system catalog. At its
    /// next attempt, the table exists.
    private func createTables(on connection: Connection) async throws {
        for _ in 1...20 {
            do {
                return try await connection.execute(script: Self.tables)
            } catch {
                guard ["23505", "42P07", "42710", "XX000"].contains(error.sqlState) else { throw error }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        try await connection.execute(script: Self.tables)
    }

    /// Applies the first pending migration; `nil` if no migration is pending.
    private func applyNext(on connection: Connection) async throws -> String? {
        do {
            // The settings apply to this transaction only. With READ COMMITTED, statements after the lock see the
            // migrations that the previous holder of the lock applied.
            try await connection.execute(
                script: "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; "
                    + "SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
            )
            _ = try await connection.run([Self.lock], timeout: .seconds(24 * 3600))
            let plan = try await plan(on: connection, tableExists: true)
            guard let (migration, checksum) = plan.next else {
                _ = try await connection.run(.rollback)
                return nil
            }
            try await apply(migration, checksum: checksum, on: connection)
            return migration.name
        } catch {
            // Without the rollback, the connection would still be in a failed transaction when the method returns to
            // the caller.
            await connection.rollback()
            throw error
        }
    }

    private func apply(_ migration: Migration, checksum: String, on connection: Connection) async throws {
        do {
            // While a migration waits for a lock, all later statements on the table wait for the migration. Therefore,
            // if a long transaction has the lock, the migration is soon rolled back, and tried again later.
            let limit = Int(max(timeout.forLock / .milliseconds(1), 1))
            try await connection.execute(script: "SET LOCAL lock_timeout = \(limit)")
            for statement in Migration.statements(in: migration.text(with: variables)) {
                try await connection.execute(script: statement)
            }
        } catch {
            if error.sqlState == nil { throw error }
            throw MigratorError.failed(migration.name, error)
        }
        guard connection.isInTransaction else { throw MigratorError.endedTransaction(migration.name) }
        var parameters = Parameters()
        parameters.add(migration.name)
        parameters.add(checksum)
        _ = try await connection.run([Query(Self.record, parameters), .commit], timeout: .seconds(3600))
    }

    private func plan(
        on connection: Connection,
        tableExists: Bool
    ) async throws -> (status: MigratorStatus, next: (Migration, checksum: String)?) {
        var texts = Parameters()
        texts.add(migrations.map(\.sql))
        let rows = try await connection.run(Query(Self.checksums, texts))
        let checksums = try migrations.indices.map { index in
            try migrations[index].publishedChecksum ?? rows.read(index, 0, as: String.self)
        }
        var applied: [MigrationPlan.Applied] = []
        if tableExists {
            let rows = try await connection.run(Self.applied)
            applied = try (0..<rows.count).map {
                .init(name: try rows.read($0, 0), checksum: try rows.read($0, 1))
            }
        }
        let known = zip(migrations, checksums).map { MigrationPlan.Applied(name: $0.name, checksum: $1) }
        let status = try MigrationPlan(known: known, applied: applied).status
        let next = zip(migrations, checksums).first { $0.0.name == status.pending.first }
        return (status, next.map { ($0, checksum: $1) })
    }
}

public enum MigratorError: Error, Sendable, Equatable, CustomStringConvertible {
    case duplicate(String)
    /// A migration was applied with a text that differs from the published text in this build.
    case changed(String)
    /// A pending migration comes before an applied migration.
    case gap(pending: String, applied: String)
    /// An applied migration is missing from this build, although the build has later migrations.
    case missing(String)
    /// The migration ended the transaction it runs in.
    case endedTransaction(String)
    /// A migration failed and had no effect.
    case failed(String, PostgresError)

    public var description: String {
        switch self {
        case .duplicate(let name): "two migrations are named \(name)"
        case .changed(let name): "migration \(name) was changed after it had been applied"
        case .gap(let pending, let applied): "migration \(pending) is pending, but \(applied) has been applied"
        case .missing(let name): "migration \(name) has been applied, but this build does not contain it"
        case .endedTransaction(let name): "migration \(name) ends the transaction it runs in"
        case .failed(let name, let error): "migration \(name) failed: \(error.userMessage)"
        }
    }
}

/// A database's state relative to the migrations of this build.
public struct MigratorStatus: Sendable, Equatable {
    public let applied: [String]
    public let pending: [String]
    /// The migrations that a newer build has applied and this build does not contain, in order.
    public let unknownNewer: [String]
}

/// How long a migration waits for locks of other sessions.
public struct MigratorTimeouts: Sendable {
    /// The time to wait for one lock, after which the migration is rolled back.
    ///
    /// During this time, all other sessions that need the table wait for the migration.
    public var forLock: Duration
    /// The pause before the migration is tried again.
    public var pause: Duration
    /// The total time for attempts at one migration.
    public var total: Duration

    public init(
        forLock: Duration = .seconds(1),
        pause: Duration = .seconds(2),
        total: Duration = .seconds(600)
    ) {
        self.forLock = forLock
        self.pause = pause
        self.total = total
    }
}
