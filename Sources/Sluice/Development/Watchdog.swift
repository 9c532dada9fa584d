import Glibc
import ServiceLifecycle
import Subprocess
import Synchronization

/// The shell between this process and the server.
///
/// The shell runs the server until the shell's input is closed. The system closes the input when this process ends in
/// any way.
enum Watchdog {
    static func arguments(_ layout: ClusterLayout) -> Arguments {
        let scriptArguments = [
            "sluice-dev-watchdog", layout.log,
            "postgres", "-D", layout.data, "-k", layout.socketFolder, "-p", String(ClusterLayout.port),
            "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c", "cluster_name=sluice-dev",
            "-c", "logging_collector=off", "-c", "log_destination=stderr",
        ]
        return UserShell.arguments(script, scriptArguments, as: layout.user)
    }

    /// SIGINT is the signal of "pg_ctl stop -m fast". The signal is repeated, because a server that is just starting
    /// may miss it.
    private static let script = """
        log=$1; shift
        [ ! -e "$log" ] || mv -f "$log" "$log.1"
        trap '' INT TERM HUP QUIT PIPE
        (trap - INT TERM HUP QUIT PIPE; exec "$@" </dev/null >>"$log" 2>&1) &
        server=$!
        runs() { { read -r _ _ state _ <"/proc/$server/stat"; } 2>/dev/null && [ "$state" != Z ]; }
        trap 'exit 1' USR1
        (while runs; do sleep 0.2; done; kill -USR1 $$ 2>/dev/null) &
        read -r _
        trap '' USR1
        while runs; do kill -INT $server 2>/dev/null; sleep 0.1; done
        wait
        """
}

/// Records whether the private server runs, and ends the gateway when the server ends.
final class DatabaseWatch: Service {
    private let log: String
    private let isOver = Mutex(false)
    private let ends: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init(log: String) {
        self.log = log
        (ends, continuation) = AsyncStream.makeStream()
    }

    var hasEnded: Bool { isOver.withLock { $0 } }

    func serverEnded() {
        isOver.withLock { $0 = true }
        continuation.finish()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in self.ends {}
        }
        if hasEnded { throw failure("The private PostgreSQL server has ended") }
    }

    /// An error with the last lines of the server's log.
    func failure(_ what: String) -> DevelopmentError {
        let lines = (Folder.text(of: log) ?? "").split(separator: "\n").suffix(5).map { "  \($0)" }
        return DevelopmentError(([what + "; the end of \(log):"] + lines).joined(separator: "\n"))
    }
}

/// The operating system's user that runs the private PostgreSQL server if root starts the gateway. It is needed because
/// PostgreSQL refuses to run as root.
struct DatabaseUser: Sendable {
    let name: String
    let userID: uid_t
    let groupID: gid_t

    /// Returns `postgres` or `nobody`. Returns nil if this process does not run as root: its own user can then run the
    /// server.
    static func forRoot() throws -> DatabaseUser? {
        guard geteuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            guard let entry = getpwnam(name)?.pointee else { continue }
            return DatabaseUser(name: name, userID: entry.pw_uid, groupID: entry.pw_gid)
        }
        throw DevelopmentError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it.")
    }
}

/// A shell script that runs as a database's user.
enum UserShell {
    static let executable = Executable.name("sh")

    /// The shell's arguments.
    ///
    /// A separate program, setpriv(1), changes the user. If the user were changed between fork and exec, the C library
    /// would wait for threads that the child process does not have, sometimes forever.
    ///
    /// - Parameters:
    ///   - scriptArguments: `$0`, `$1` and so on.
    ///   - user: nil for the user of this process.
    static func arguments(_ script: String, _ scriptArguments: [String], as user: DatabaseUser?) -> Arguments {
        let shell = ["-c", script] + scriptArguments
        guard let user else { return Arguments(shell) }
        let change = "exec setpriv --reuid=\(user.userID) --regid=\(user.groupID) --clear-groups sh \"$@\""
        return Arguments(["-c", change, "sh"] + shell)
    }
}
