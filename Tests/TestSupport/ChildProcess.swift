import Glibc
import Synchronization

/// A child in a separate session whose standard input comes from this process, and ends with it: no other child holds
/// this end open.
package final class ChildProcess: Sendable {
    private struct State {
        var pipe: Int32
        var hasEnded = false
        /// The exit status as `waitpid` reports it.
        var status: Int32 = 0
    }

    private let pid: pid_t
    private let state: Mutex<State>

    init(_ command: [String]) throws {
        var ends: [Int32] = [-1, -1]
        // a pair of sockets instead of a pipe, because it can be created so that no other child inherits it
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw TestCluster.Failure(description: "no sockets left")
        }
        defer { _ = close(ends[0]) }
        do {
            pid = try spawn(command) { files in
                posix_spawn_file_actions_adddup2(&files, ends[0], 0)
                posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0)
            }
        } catch {
            _ = close(ends[1])
            throw error
        }
        state = Mutex(State(pipe: ends[1]))
    }

    deinit { closePipe() }

    /// Runs a command to its end; throws if it fails.
    package static func run(_ command: [String]) async throws {
        let child = try ChildProcess(command)
        try await child.waitForEnd()
        let status = child.state.withLock { $0.status }
        guard status == 0 else { throw TestCluster.Failure(description: "\(command) failed: \(status)") }
    }

    func tell(_ text: String) {
        let bytes = Array(text.utf8)
        _ = state.withLock { write($0.pipe, bytes, bytes.count) }
    }

    func closePipe() {
        state.withLock { state in
            if state.pipe >= 0 { _ = close(state.pipe) }
            state.pipe = -1
        }
    }

    var hasEnded: Bool {
        state.withLock { state in
            if !state.hasEnded { state.hasEnded = waitpid(pid, &state.status, WNOHANG) == pid }
            return state.hasEnded
        }
    }

    /// Polls instead of blocking a thread that other tests need.
    func waitForEnd() async throws {
        while !hasEnded { try await Task.sleep(for: .milliseconds(10)) }
    }
}
