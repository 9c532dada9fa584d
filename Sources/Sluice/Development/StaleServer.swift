import Glibc

/// The possible remains of an earlier run: a server that is still ending, or its PID file.
struct StaleServer {
    let layout: ClusterLayout

    /// Waits for the server to end, ends it if it does not, and removes files that would keep another from starting.
    func clear() async throws {
        guard let pid = recordedPID else { return }
        for attempt in 0..<200 where isOurs(pid) {
            // Its watchdog ends it; after five seconds, signals do.
            if attempt >= 50 { kill(pid, attempt < 100 ? SIGINT : SIGQUIT) }
            try await Task.sleep(for: .milliseconds(100))
        }
        if isOurs(pid) { throw DevelopmentError("PostgreSQL of an earlier run does not stop: process \(pid).") }
        // Another program may have the process id already, which would make the server refuse to start.
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
