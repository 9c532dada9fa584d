import Subprocess

/// The shell between this process and the server.
///
/// It runs the server until its input closes, which the system does when this process ends in any way.
enum Watchdog {
    static func arguments(_ layout: ClusterLayout) -> Arguments {
        let userMessage = [
            "sluice-dev-watchdog", layout.log,
            "postgres", "-D", layout.data, "-k", layout.socketFolder, "-p", String(ClusterLayout.port),
            "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c", "cluster_name=sluice-dev",
            "-c", "logging_collector=off", "-c", "log_destination=stderr",
        ]
        return UserShell.arguments(script, userMessage, as: layout.user)
    }

    /// SIGINT is what "pg_ctl stop -m fast" sends. It is repeated, because a server that is just starting may miss it.
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
