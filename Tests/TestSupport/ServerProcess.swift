import Foundation
import Glibc
import Postgres

/// The files of a server, and the watchdog that runs it.
actor ServerProcess {
    nonisolated let directory: String
    private let binaries: String
    /// What runs a command as the user that owns the server; PostgreSQL refuses to run as root.
    private let asUser: [String]
    private var watchdog: ChildProcess?

    init() throws {
        binaries = try Self.findBinaries()
        directory = try Self.makeDirectory()
        asUser = try Self.handOver(directory)
        try ChildProcess.run(
            asUser + [
                "\(binaries)/initdb", "--pgdata=\(directory)/data", "--username=postgres", "--auth=trust",
                "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions",
            ]
        )
    }

    deinit {
        // Closing the pipe makes the watchdog clean up; where it is not running, nothing else would.
        if watchdog == nil { try? FileManager.default.removeItem(atPath: directory) }
    }

    func start() async throws {
        guard watchdog == nil else { return }
        let server =
            asUser + [
                "\(binaries)/postgres", "-D", "\(directory)/data", "-k", directory, "-c", "listen_addresses=",
                "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200",
                "-c", "max_prepared_transactions=0", "-c", "log_min_messages=fatal", "-c", "shared_buffers=64MB",
            ]
        // After a kill -9 the old children may still hold the shared memory for a moment.
        for _ in 1...100 {
            let watchdog = try ChildProcess(["/bin/sh", "-c", Self.script, "watchdog", directory] + server)
            if try await isReady(watchdog) {
                self.watchdog = watchdog
                return
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw TestCluster.Failure(description: "postgres does not start; see \(directory)/log")
    }

    /// Whether the server accepts connections; `false` where it has ended instead.
    private func isReady(_ watchdog: ChildProcess) async throws -> Bool {
        let configuration = ConnectionConfiguration(uri: "postgresql:///postgres?host=\(directory)&user=postgres")
        for _ in 1...400 {
            if let connection = try? await Connection.open(configuration) {
                await connection.closeAndWait()
                return true
            }
            if watchdog.hasEnded { return false }
            try await Task.sleep(for: .milliseconds(25))
        }
        return false
    }

    func stop(signal: String) async throws {
        guard let watchdog else { return }
        watchdog.tell("\(signal)\n")
        try await watchdog.waitForEnd()
        self.watchdog = nil
    }

    func signal(_ number: Int32) throws {
        let text = try String(contentsOfFile: "\(directory)/data/postmaster.pid", encoding: .utf8)
        guard let line = text.split(separator: "\n").first, let pid = pid_t(line) else { return }
        _ = kill(pid, number)
    }

    func end() async {
        watchdog?.closePipe()
        try? await watchdog?.waitForEnd()
        watchdog = nil
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// Runs the server until a line names a signal to stop it with, or until the pipe closes; then the directory goes
    /// too.
    private static let script = """
        directory=$1; shift
        exec 2>>"$directory/log"
        trap '' INT TERM HUP PIPE
        (trap - INT TERM HUP PIPE; exec "$@" </dev/null >>"$directory/log" 2>&1) &
        server=$!
        (while kill -0 $server 2>/dev/null; do sleep 0.2; done; kill -USR1 $$ 2>/dev/null) &
        trap 'exit 1' USR1
        if read -r signal; then
            trap '' USR1
            kill -CONT $server; kill -"$signal" $server; wait $server
        else
            trap '' USR1
            kill -CONT $server; kill -INT $server; wait $server; rm -rf "$directory"
        fi
        """

    private static func findBinaries() throws -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let newest = versions.compactMap(Int.init).sorted(by: >).map { "\(root)/\($0)/bin" }
        let found = newest.first { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
        guard let found else { throw TestCluster.Failure(description: "no PostgreSQL server under \(root)") }
        return found
    }

    /// Short, as the path of a Unix socket must fit in 107 bytes.
    private static func makeDirectory() throws -> String {
        var template = Array("/tmp/pgtest-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw TestCluster.Failure(description: "no temporary directory") }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func handOver(_ directory: String) throws -> [String] {
        guard geteuid() == 0 else { return [] }
        let user = ProcessInfo.processInfo.environment["SLUICE_POSTGRES_OS_USER"] ?? "postgres"
        guard let entry = getpwnam(user) else {
            throw TestCluster.Failure(description: "root can't run postgres, and there is no user \(user)")
        }
        let (uid, gid) = (entry.pointee.pw_uid, entry.pointee.pw_gid)
        guard chown(directory, uid, gid) == 0 else {
            throw TestCluster.Failure(description: "\(directory) can't be given to \(user)")
        }
        return ["setpriv", "--reuid=\(uid)", "--regid=\(gid)", "--clear-groups"]
    }
}
