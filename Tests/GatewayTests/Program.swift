import Foundation
import Glibc
import Synchronization

/// A process of the built `sluice`. It gets SIGKILL when this object goes, or when this process ends, however it ends.
final class Program: Sendable {
    private struct State {
        /// Its closing tells the watchdog to kill the program.
        var pipe: Int32
        var status: Int32?
    }

    let pid: pid_t
    private let state: Mutex<State>
    private let standardOutput: Int32
    private let standardError: Int32

    /// - Parameter environment: beside this process's own, of which variables of Sluice and libpq are left out.
    convenience init(_ arguments: [String], environment: [String: String] = [:], directory: String? = nil) throws {
        try self.init(command: [Self.path] + arguments, environment: environment, directory: directory)
    }

    /// Not `sluice`, but what somebody types into a shell.
    convenience init(shell text: String) throws {
        try self.init(command: ["/bin/sh", "-c", text], environment: [:], directory: nil)
    }

    private init(command: [String], environment: [String: String], directory: String?) throws {
        standardOutput = try Self.unnamedFile()
        standardError = try Self.unnamedFile()
        var ends: [Int32] = [-1, -1]
        // A pair of sockets and not a pipe, as it can be made so that no other child inherits it.
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Failure("no sockets left") }
        defer { close(ends[0]) }
        // The watchdog knows the program's process id, $$, which the program keeps as it takes the shell's place.
        let script = """
            cd "$1" || exit
            shift
            ( (read -r _ <&3 || kill -9 $$) >/dev/null 2>&1 & )
            exec "$@" 3<&-
            """
        do {
            pid = try Self.spawn(
                ["/bin/sh", "-c", script, "sh", directory ?? "."] + command,
                Self.environment.merging(environment) { $1 },
                [standardOutput, standardError, ends[0]]
            )
        } catch {
            for descriptor in [ends[1], standardOutput, standardError] { close(descriptor) }
            throw error
        }
        state = Mutex(State(pipe: ends[1]))
    }

    deinit {
        send(SIGKILL)
        while status == nil { usleep(1_000) }
        close(standardOutput)
        close(standardError)
    }

    /// The built program, beside the tests' own.
    static let path = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "."
        return URL(filePath: own).deletingLastPathComponent().appending(path: "sluice").path
    }()

    /// Why a program could not be started, or did not end.
    struct Failure: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) {
            self.description = description
        }
    }

    /// What a command said and how it ended.
    struct Result: Sendable {
        let status: Int32
        let output: String
        let complaint: String
    }

    /// Runs a command to its end.
    static func run(
        _ arguments: [String],
        environment: [String: String] = [:],
        within limit: Duration = .seconds(20)
    ) async throws -> Result {
        let program = try Program(arguments, environment: environment)
        let status = try await program.end(within: limit)
        return Result(status: status, output: program.output, complaint: program.complaint)
    }

    var output: String { Self.text(of: standardOutput) }
    var complaint: String { Self.text(of: standardError) }

    func send(_ signal: Int32) {
        // under the lock, so that the number is not another process's by now
        state.withLock { if $0.status == nil { _ = kill(pid, signal) } }
    }

    /// The exit status, or the number of the signal that ended it, negative; nil while it runs.
    var status: Int32? {
        state.withLock { state in
            guard state.status == nil else { return state.status }
            var information = siginfo_t()
            guard waitid(P_PID, id_t(pid), &information, WEXITED | WNOHANG | WNOWAIT) == 0,
                information._sifields._sigchld.si_pid == pid
            else { return nil }
            // before the number becomes free: the watchdog must not kill whoever gets it next
            _ = write(state.pipe, "\n", 1)
            close(state.pipe)
            var raw: Int32 = 0
            waitpid(pid, &raw, 0)
            state.status = raw & 0x7f == 0 ? raw >> 8 & 0xff : -(raw & 0x7f)
            return state.status
        }
    }

    /// Waits for the end and answers ``status``.
    func end(within limit: Duration) async throws -> Int32 {
        let deadline = ContinuousClock.now + limit
        while true {
            if let status { return status }
            guard .now < deadline else { throw Failure("does not end within \(limit): \(output)\(complaint)") }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static let environment = ProcessInfo.processInfo.environment.filter {
        !$0.key.hasPrefix("SLUICE_") && !$0.key.hasPrefix("PG")
    }

    private static func unnamedFile() throws -> Int32 {
        let path = "/tmp/sluice-test-\(UInt64.random(in: 0...(.max)))"
        let file = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure("no temporary file") }
        unlink(path)
        return file
    }

    private static func text(of file: Int32) -> String {
        var found = stat()
        guard fstat(file, &found) == 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: Int(found.st_size))
        let count = pread(file, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    /// - Parameter descriptors: what becomes 1, 2 and 3 there.
    private static func spawn(
        _ arguments: [String],
        _ environment: [String: String],
        _ descriptors: [Int32]
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for (number, descriptor) in descriptors.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(number) + 1)
        }
        // A session of its own, so that ctrl-C in the terminal reaches the tests alone. Signals as usual.
        let setsid: Int16 = 0x80
        posix_spawnattr_setflags(&attributes, setsid | Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        let argv = arguments.map { strdup($0) }
        let envp = environment.map { strdup("\($0.key)=\($0.value)") }
        defer { for text in argv + envp { free(text) } }
        var pid = pid_t()
        let failure = posix_spawn(&pid, arguments[0], &actions, &attributes, argv + [nil], envp + [nil])
        guard failure == 0 else { throw Failure("\(arguments[0]): error \(failure)") }
        return pid
    }
}
