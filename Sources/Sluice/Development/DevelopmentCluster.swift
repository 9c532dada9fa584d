import CommandSupport
import Glibc
import Postgres
import Subprocess

/// A private PostgreSQL server, which listens on a Unix socket only and lives as long as this process.
struct DevelopmentCluster: Sendable {
    let layout: ClusterLayout
    let binaries: PostgresBinaries

    static let database = "sluice"

    static func settle(
        in directory: DevelopmentDirectory,
        environment: [String: String]
    ) async throws -> DevelopmentCluster {
        let user = try DatabaseUser.forRoot()
        // Another user may not get to this one's folder for temporary files.
        let own = user == nil ? environment["TMPDIR"] : nil
        let temporary = own.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        let layout = try await ClusterLayout.settle(
            in: directory,
            user: user,
            temporary: temporary
        )
        let major = Folder.text(of: layout.data + "/PG_VERSION")
        let binaries = try PostgresBinaries.find(major: major, path: environment["PATH"] ?? "")
        return DevelopmentCluster(layout: layout, binaries: binaries)
    }

    var uri: String { layout.uri(database: Self.database) }

    /// Whether data of an earlier run exist; initdb leaves nothing half-made under this name.
    var isInitialized: Bool { Folder.exists(layout.data + "/PG_VERSION") }

    /// Makes an empty cluster: UTF-8, open to any user of the socket, closed to any network.
    func initialize() async throws {
        let script = """
            rm -rf "$1.new"
            initdb --pgdata="$1.new" --username="$2" --auth-local=trust --auth-host=reject \
                --encoding=UTF8 --locale=C.UTF-8 --no-instructions >"$1.new.log" 2>&1 &&
            mv "$1.new" "$1" && rm -f "$1.new.log" || { tail -n 5 "$1.new.log" >&2; exit 1; }
            """
        let result = try await run(
            UserShell.executable,
            arguments: UserShell.arguments(script, ["sh", layout.data, ClusterLayout.superuser], as: layout.user),
            environment: binaries.environment,
            output: .discarded,
            error: .string(limit: 65_536)
        )
        if !result.terminationStatus.isSuccess {
            throw DevelopmentError("initdb failed: \(result.standardError)")
        }
    }

    /// Runs the server for as long as `body` takes, and ends it with `pg_ctl`'s "fast" mode.
    ///
    /// The server has its own session, so that a Ctrl-C reaches this process alone. A watchdog ends the server when
    /// this process ends in any way.
    func whileRunning(_ body: (DatabaseWatch) async throws -> Void) async throws {
        try await StaleServer(layout: layout).clear()
        var options = PlatformOptions()
        options.createSession = true
        let watch = DatabaseWatch(log: layout.log)
        _ = try await run(
            UserShell.executable,
            arguments: Watchdog.arguments(layout),
            environment: binaries.environment,
            platformOptions: options,
            input: .inputWriter,
            output: .sequence,
            error: .discarded
        ) { execution in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    // The watchdog prints nothing; the end of its output is the end of the server.
                    do { for try await _ in execution.standardOutput {} } catch {}
                    watch.serverEnded()
                }
                do {
                    try await awaitServer(watch)
                    try await makeDatabase()
                    try await body(watch)
                } catch {
                    try? await execution.standardInputWriter.finish()
                    throw error
                }
                try await execution.standardInputWriter.finish()
                try await group.waitForAll()
            }
        }
    }

    private func awaitServer(_ watch: DatabaseWatch) async throws {
        let configuration = ConnectionConfiguration(uri: layout.uri(database: "postgres"))
        let deadline = ContinuousClock.now + .seconds(60)
        while !watch.hasEnded, ContinuousClock.now < deadline {
            if let connection = try? await Connection.open(configuration) {
                await connection.closeAndWait()
                return
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw watch.failure("PostgreSQL does not start")
    }

    private func makeDatabase() async throws {
        try await SchemaCheck.withConnection(to: layout.uri(database: "postgres")) { connection in
            let query = Query(
                Statement("dev_database", "SELECT FROM pg_database WHERE datname = '\(Self.database)'")
            )
            if try await connection.run(query).count == 0 {
                try await connection.execute(script: "CREATE DATABASE \(Self.database)")
            }
        }
    }
}
