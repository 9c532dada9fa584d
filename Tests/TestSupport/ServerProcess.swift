import Foundation
import Glibc
import Postgres

/// The files of a server, and its watchdog.
actor ServerProcess {
    nonisolated let directory: String
    /// Receives commands through its pipe. Once the pipe closes, by `end`, with the last reference or with this
    /// process, it stops the server and removes the directory.
    private let watchdog: ChildProcess

    /// - Parameters:
    ///   - isDurable: whether commits survive a crash as in production.
    ///   - address: an additional IP address on which the server listens, at the usual port; empty for none.
    ///   - settings: additional settings, `name=value`.
    ///   - primary: the directory of a running server, of which this becomes a streaming standby; nil for a new one.
    init(isDurable: Bool, address: String, settings: [String] = [], standbyOf primary: String? = nil) async throws {
        let binaries = try Self.findBinaries()
        directory = try TestFolder.make("pgtest")
        let asUser = try Self.handOver(directory)
        let server =
            asUser + [
                "\(binaries)/postgres", "-D", "\(directory)/data", "-k", directory, "-c", "listen_addresses=\(address)",
                "-c", "max_connections=600", "-c", "log_min_messages=fatal", "-c", "shared_buffers=64MB",
            ] + (settings + (isDurable ? [] : Self.volatile)).flatMap { ["-c", $0] }
        watchdog = try ChildProcess(["/bin/sh", "-c", Self.script, "watchdog", directory] + server)
        if let primary {
            try await ChildProcess.run(
                asUser + [
                    "\(binaries)/pg_basebackup", "--dbname=host=\(primary) user=postgres",
                    "--pgdata=\(directory)/data", "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
                ]
            )
            return
        }
        try await ChildProcess.run(
            asUser + [
                "\(binaries)/initdb", "--pgdata=\(directory)/data", "--username=postgres", "--auth=trust",
                "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions",
            ]
        )
    }

    func start() async throws {
        guard !isRunning else { return }
        // After a kill -9 the old children may still hold the shared memory for a moment.
        try await waitUntil("postgres has started; see \(directory)/log", every: .milliseconds(50)) {
            let before = ends
            watchdog.tell("start\n")
            return try await isReady(unless: { self.ends != before || self.watchdog.hasEnded })
        }
    }

    /// Stops the server with a signal, and returns when it has ended.
    func stop(signal: String) async throws {
        watchdog.tell("\(signal)\n")
        while isRunning { try await Task.sleep(for: .milliseconds(10)) }
    }

    /// Freezes (`true`) or continues the server's main process.
    ///
    /// - Parameter wholly: whether its sessions are frozen or continued too, as if the machine were disconnected.
    func freeze(_ frozen: Bool, wholly: Bool = false) throws {
        let text = try String(contentsOfFile: "\(directory)/data/postmaster.pid", encoding: .utf8)
        guard let line = text.split(separator: "\n").first, let pid = pid_t(line) else { return }
        _ = kill(pid, frozen ? SIGSTOP : SIGCONT)
        guard wholly else { return }
        let children = try String(contentsOfFile: "/proc/\(pid)/task/\(pid)/children", encoding: .utf8)
        for child in children.split(separator: " ").compactMap({ pid_t($0) }) {
            _ = kill(child, frozen ? SIGSTOP : SIGCONT)
        }
    }

    /// Stops the server and removes its directory.
    func end() async {
        watchdog.closePipe()
        try? await watchdog.waitForEnd()
    }

    private var isRunning: Bool { FileManager.default.fileExists(atPath: "\(directory)/running") }

    /// How often the server has ended.
    private var ends: Int {
        (try? FileManager.default.attributesOfItem(atPath: "\(directory)/ends")[.size] as? Int) ?? 0
    }

    /// Whether the server accepts connections; `false` if it has ended instead.
    private func isReady(unless hasEnded: () -> Bool) async throws -> Bool {
        var configuration = ConnectionConfiguration(uri: "postgresql:///postgres?host=\(directory)&user=postgres")
        configuration.requiresWrites = false
        var isReady = false
        try await waitUntil("postgres answers, or has ended", every: .milliseconds(25)) {
            if let connection = try? await Connection.open(configuration) {
                await connection.closeAndWait()
                isReady = true
            }
            return isReady || hasEnded()
        }
        return isReady
    }

    /// The file `running` exists from a start until the server has ended; then the file `ends` grows by one byte. A
    /// stopped process handles no other signal, so it first gets CONT.
    private static let script = """
        directory=$1; shift
        exec 2>>"$directory/log"
        trap '' INT TERM HUP PIPE
        signal() {
            pid=$(head -n 1 "$directory/data/postmaster.pid") && kill -CONT "$pid" && kill -"$1" "$pid"
        }
        run() {
            (trap - INT TERM HUP PIPE; exec "$@" </dev/null >>"$directory/log")
            echo >>"$directory/ends"
            rm -f "$directory/running"
        }
        while read -r command; do
            if [ "$command" = start ]; then
                touch "$directory/running"
                run "$@" &
            else
                signal "$command"
            fi
        done
        while [ -e "$directory/running" ]; do signal QUIT; sleep 0.1; done
        until rm -rf "$directory"; do sleep 0.1; done
        """

    private static func findBinaries() throws -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let newest = versions.compactMap(Int.init).sorted(by: >).map { "\(root)/\($0)/bin" }
        let found = newest.first { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
        guard let found else { throw TestCluster.Failure(description: "no PostgreSQL server under \(root)") }
        return found
    }

    /// Nothing is flushed, and little of the log is kept.
    private static let volatile = [
        "fsync=off", "full_page_writes=off", "max_wal_size=128MB", "min_wal_size=32MB",
    ]

    /// The command prefix for a program that refuses to run as root, once a directory is given to another user.
    static func handOver(_ directory: String) throws -> [String] {
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
