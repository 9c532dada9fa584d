import CommandSupport
import FoundationEssentials
import Glibc
import Postgres
import Subprocess

/// A private PostgreSQL server, which listens only on a Unix socket and runs as long as this process.
struct DevelopmentCluster: Sendable {
    let layout: ClusterLayout
    let binaries: PostgresBinaries

    static let database = "sluice"

    /// Finds the files of an existing cluster, or chooses their places, and finds PostgreSQL's programs.
    static func locate(
        in directory: DevelopmentDirectory,
        environment: [String: String]
    ) async throws -> DevelopmentCluster {
        let user = try DatabaseUser.forRoot()
        // Another user may not have access to this user's folder for temporary files.
        let own = user == nil ? environment["TMPDIR"] : nil
        let temporary = own.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        let layout = try await ClusterLayout.locate(
            in: directory,
            user: user,
            temporary: temporary
        )
        let major = Folder.text(of: layout.data + "/PG_VERSION")
        let binaries = try PostgresBinaries.find(major: major, path: environment["PATH"] ?? "")
        return DevelopmentCluster(layout: layout, binaries: binaries)
    }

    var uri: String { layout.uri(database: Self.database) }

    /// Whether data of an earlier run exist. An interrupted initdb leaves no files under this name.
    var isInitialized: Bool { Folder.exists(layout.data + "/PG_VERSION") }

    /// Creates an empty cluster with the encoding UTF-8. Every user who can open the socket can use the cluster. The
    /// cluster is not reachable from a network.
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

    /// Runs the server while `body` runs, and ends it in the "fast" mode of `pg_ctl`.
    ///
    /// The server has a separate session, so that only this process receives a Ctrl-C. A watchdog ends the server when
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
                    // The watchdog prints nothing, but its output stays open until the server ends.
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

// MARK: - ClusterLayout

/// The places of a private cluster's files.
struct ClusterLayout: Sendable {
    /// The folder with the data, the log and, if the folder's path is short enough, the socket.
    let base: String
    let socketFolder: String
    let user: DatabaseUser?

    var data: String { base + "/data" }
    var log: String { base + "/postgres.log" }
    var pidFile: String { data + "/postmaster.pid" }

    /// The URI of a database of the cluster.
    func uri(database: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/".utf8)
        let host = socketFolder.utf8.map { byte in
            if plain.contains(byte) { return String(Unicode.Scalar(byte)) }
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.count < 2 ? "0" : "") + digits
        }
        return "postgresql:///\(database)?host=\(host.joined())&port=\(Self.port)&user=\(Self.superuser)"
    }

    static let superuser = "sluice"
    /// The port in the socket's name. The server does not listen on a network.
    static let port = 5432
    static let socketName = ".s.PGSQL.\(port)"
    /// The longest path of a Unix socket, in bytes.
    static let longestSocketPath = 107

    /// Finds the places that were used before, or chooses and records them.
    ///
    /// The data is in the folder itself, or under /var/tmp if the database's user cannot access the folder (for example
    /// in root's home). The socket is next to the data, or under TMPDIR if the socket's path would be too long there.
    static func locate(
        in directory: DevelopmentDirectory,
        user: DatabaseUser?,
        temporary: String
    ) async throws -> ClusterLayout {
        let base = try await remembered("data-location", in: directory) {
            let inside = directory.file("postgres")
            try Folder.makePrivate(inside, owner: user)
            if await isReachable(inside, by: user) { return inside }
            rmdir(inside)
            return "/var/tmp/" + DevelopmentDirectory.uniqueName()
        }
        try Folder.makePrivate(base, owner: user)
        let socketFolder = try await remembered("socket-location", in: directory) {
            let isShort = "\(base)/\(socketName)".utf8.count <= longestSocketPath
            if isShort { return base }
            let name = DevelopmentDirectory.uniqueName()
            let fits = "\(temporary)/\(name)/\(socketName)".utf8.count <= longestSocketPath
            return (fits ? temporary : "/tmp") + "/" + name
        }
        try Folder.makePrivate(socketFolder, owner: user)
        return ClusterLayout(base: base, socketFolder: socketFolder, user: user)
    }

    /// The recorded place. If no place is recorded, chooses a place, and records it if it is outside of the folder.
    private static func remembered(
        _ name: String,
        in directory: DevelopmentDirectory,
        choose: () async throws -> String
    ) async throws -> String {
        let note = directory.file(name)
        if let place = Folder.text(of: note), place.hasPrefix("/") { return place }
        let place = try await choose()
        if !place.hasPrefix(directory.path + "/") { try Folder.write(place, to: note, mode: 0o644) }
        return place
    }

    private static func isReachable(_ folder: String, by user: DatabaseUser?) async -> Bool {
        guard user != nil else { return true }
        let result = try? await run(
            UserShell.executable,
            arguments: UserShell.arguments("cd \"$1\" && touch .probe && rm .probe", ["sh", folder], as: user),
            output: .discarded
        )
        return result?.terminationStatus.isSuccess ?? false
    }
}

struct PostgresBinaries: Sendable {
    /// The folder of `initdb` and `postgres`.
    let folder: String

    /// The lowest major version that the gateway supports.
    static let oldest = 15

    /// Returns the installation of the major version `major`, which an existing cluster has; without a cluster, the
    /// newest supported installation.
    ///
    /// Installations in folders of PATH are used last, without a check of their version.
    ///
    /// - Parameter root: the folder with a folder for each installed major version.
    static func find(major: String?, path: String, root: String = "/usr/lib/postgresql") throws -> PostgresBinaries {
        if let major, let version = Int(major), version < oldest {
            throw DevelopmentError(
                "The data are of PostgreSQL \(major), and Sluice needs PostgreSQL \(oldest) or later. Use another folder."
            )
        }
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).compactMap(Int.init)
        func folder(of version: Int) -> String { "\(root)/\(version)/bin" }
        let wanted = versions.filter { $0 >= oldest && (major == nil || String($0) == major) }
        let unsupported = Set(versions.filter { $0 < oldest }.map(folder))
        let candidates =
            wanted.sorted(by: >).map(folder)
            + path.split(separator: ":").map(String.init).filter { !unsupported.contains($0) }
        let found = candidates.first { folder in
            ["initdb", "postgres"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)") }
        }
        guard let found else {
            let product = major.map { "PostgreSQL \($0)" } ?? "PostgreSQL \(oldest) or later"
            throw DevelopmentError(
                """
                No \(product) server is installed: neither \(root)/*/bin nor PATH has initdb and postgres.
                Install it: apt-get install postgresql
                """
            )
        }
        return PostgresBinaries(folder: found)
    }

    /// The environment of child processes, without the caller's variables that could direct these processes to another
    /// server.
    var environment: Subprocess.Environment {
        .custom(["PATH": "\(folder):/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"])
    }
}

/// The possible remains of an earlier run: a server that is still ending, or its PID file.
struct StaleServer {
    let layout: ClusterLayout

    /// Waits for the server to end, ends it if necessary, and removes files that would prevent another server from
    /// starting.
    func clear() async throws {
        guard let pid = recordedPID else { return }
        for attempt in 0..<200 where isOurs(pid) {
            // The server's watchdog ends the server. If the server still runs after five seconds, signals end it.
            if attempt >= 50 { kill(pid, attempt < 100 ? SIGINT : SIGQUIT) }
            try await Task.sleep(for: .milliseconds(100))
        }
        if isOurs(pid) { throw DevelopmentError("PostgreSQL of an earlier run does not stop: process \(pid).") }
        // Another program may already have the process id, in which case the server would refuse to start.
        unlink(layout.pidFile)
        unlink("\(layout.socketFolder)/\(ClusterLayout.socketName).lock")
    }

    private var recordedPID: pid_t? {
        Folder.text(of: layout.pidFile)?.split(separator: "\n").first.flatMap { pid_t($0) }
    }

    /// Whether the process is a server of this cluster: its working directory is the data directory.
    private func isOurs(_ pid: pid_t) -> Bool {
        guard kill(pid, 0) == 0 || errno == EPERM else { return false }
        guard let command = Folder.text(of: "/proc/\(pid)/cmdline") else { return false }
        return command.split(separator: "\0").contains { $0 == layout.data }
    }
}
