import Foundation
package import Glibc
import Synchronization
import TestSupport

/// A process of the built `sluice`. It gets SIGKILL when this object is released, or when this process ends for any
/// reason.
package final class Program: Sendable {
    private struct State {
        /// When the pipe closes, the watchdog kills the program.
        var pipe: Int32
        var status: Int32?
    }

    package let pid: pid_t
    private let state: Mutex<State>
    private let standardOutput: UnnamedFile
    private let standardError: UnnamedFile

    /// - Parameter environment: variables in addition to those of this process, without those of Sluice and libpq.
    package convenience init(
        _ arguments: [String],
        environment: [String: String] = [:],
        directory: String? = nil
    ) throws {
        try self.init(command: [Self.path] + arguments, environment: environment, directory: directory)
    }

    /// Runs a shell command instead of `sluice`.
    package convenience init(shell text: String, environment: [String: String] = [:]) throws {
        try self.init(command: ["/bin/sh", "-c", text], environment: environment, directory: nil)
    }

    private init(command: [String], environment: [String: String], directory: String?) throws {
        let (standardOutput, standardError) = (try UnnamedFile(), try UnnamedFile())
        self.standardOutput = standardOutput
        self.standardError = standardError
        var ends: [Int32] = [-1, -1]
        // A pair of sockets instead of a pipe, because it can be created so that no other child inherits it.
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Failure("no sockets left") }
        defer { close(ends[0]) }
        // The watchdog gets the program's process id, $$. The program keeps it, because it replaces the shell.
        let script = """
            cd "$1" || exit
            shift
            ( (read -r _ <&3 || kill -9 $$) >/dev/null 2>&1 & )
            exec "$@" 3<&-
            """
        do {
            pid = try spawn(
                ["/bin/sh", "-c", script, "sh", directory ?? "."] + command,
                environment: Self.environment.merging(environment) { $1 },
                last: 3
            ) { actions in
                posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
                posix_spawn_file_actions_adddup2(&actions, standardOutput.descriptor, 1)
                posix_spawn_file_actions_adddup2(&actions, standardError.descriptor, 2)
                posix_spawn_file_actions_adddup2(&actions, ends[0], 3)
            }
        } catch {
            close(ends[1])
            throw error
        }
        state = Mutex(State(pipe: ends[1]))
    }

    deinit {
        send(SIGKILL)
        while status == nil { usleep(1_000) }
    }

    /// The built program, next to the tests' own.
    package static let path = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "."
        return URL(filePath: own).deletingLastPathComponent().appending(path: "sluice").path
    }()

    /// The reason why a program could not be started, or did not end.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(_ description: String) {
            self.description = description
        }
    }

    /// The output and exit status of a command.
    package struct Result: Sendable {
        package let status: Int32
        package let output: String
        package let complaint: String
    }

    /// Runs a command to its end.
    package static func run(_ arguments: [String], environment: [String: String] = [:]) async throws -> Result {
        try await Program(arguments, environment: environment).result()
    }

    /// Waits for the end and returns the complete result.
    package func result(within limit: Duration = Waiting.limit) async throws -> Result {
        let status = try await end(within: limit)
        return Result(status: status, output: output, complaint: complaint)
    }

    package var output: String { standardOutput.text }
    package var complaint: String { standardError.text }

    package func send(_ signal: Int32) {
        // under the lock, so that the process id cannot have been reused
        state.withLock { if $0.status == nil { _ = kill(pid, signal) } }
    }

    /// The exit status, or the negative number of the signal that ended it; nil while it runs.
    package var status: Int32? {
        state.withLock { state in
            guard state.status == nil else { return state.status }
            var information = siginfo_t()
            guard waitid(P_PID, id_t(pid), &information, WEXITED | WNOHANG | WNOWAIT) == 0,
                information._sifields._sigchld.si_pid == pid
            else { return nil }
            // before the process id becomes free, because the watchdog must not kill a process that reuses it
            _ = write(state.pipe, "\n", 1)
            close(state.pipe)
            var raw: Int32 = 0
            waitpid(pid, &raw, 0)
            state.status = raw & 0x7f == 0 ? raw >> 8 & 0xff : -(raw & 0x7f)
            return state.status
        }
    }

    /// Waits for the end and returns ``status``.
    package func end(within limit: Duration = Waiting.limit) async throws -> Int32 {
        let deadline = ContinuousClock.now + limit
        while true {
            if let status { return status }
            guard .now < deadline else { throw Failure("does not end within \(limit): \(output)\(complaint)") }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static let environment = ProcessInfo.processInfo.environment.filter {
        !$0.key.hasPrefix("SLUICE_") && !$0.key.hasPrefix("PG") && !$0.key.hasPrefix("OTEL_")
    }
}
