import Foundation
import GatewaySupport
import Glibc
import JSONText
import NIOHTTP1
import TestSupport
import Testing

/// A private folder in which `sluice dev` is run.
final class DevelopmentPlace: Sendable {
    let path: String

    /// Creates the folder. If root runs the tests, the user that runs PostgreSQL can access it.
    init() throws {
        path = try TestFolder.make("sluice-dev")
        chmod(path, 0o755)
    }

    /// Removes the folder after all its processes have ended.
    func remove() {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Starts a run on ports that the system chooses.
    func program(_ options: [String] = []) throws -> Program {
        try Program(["dev", "--port", "0", "--operations-port", "0"] + options, directory: path)
    }

    /// Starts a run and waits until the screen is complete.
    func start(_ options: [String] = []) async throws -> DevelopmentRun {
        let program = try program(options)
        var run: DevelopmentRun?
        try await waitUntil("dev has started: \(program.output)\(program.complaint)", every: .milliseconds(20)) {
            run = DevelopmentRun(program)
            if run == nil, let status = program.status {
                throw Program.Failure("dev ended with \(status): \(program.output)\(program.complaint)")
            }
            return run != nil
        }
        guard let run else { throw Program.Failure("dev does not start") }
        return run
    }

    // MARK: - Processes

    /// The processes of this folder's PostgreSQL, whose working directory is in the folder.
    var postgresProcesses: [pid_t] {
        Self.processes.filter { pid in
            let directory = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/cwd")
            return directory?.hasPrefix(path + "/") == true
        }
    }

    /// The shells that end PostgreSQL when their `sluice` is gone.
    var watchdogs: [pid_t] {
        Self.processes.filter { pid in
            guard let words = FileManager.default.contents(atPath: "/proc/\(pid)/cmdline") else { return false }
            let text = String(decoding: words, as: UTF8.self)
            return text.contains("sluice-dev-watchdog") && text.contains(path)
        }
    }

    var postmasterFile: String? {
        let file = "\(path)/.sluice/postgres/data/postmaster.pid"
        return FileManager.default.fileExists(atPath: file) ? file : nil
    }

    /// The main process of PostgreSQL.
    var mainProcess: pid_t? {
        guard let file = postmasterFile, let text = try? String(contentsOfFile: file, encoding: .utf8) else {
            return nil
        }
        return text.split(separator: "\n").first.flatMap { pid_t($0) }
    }

    /// Returns once no process is left.
    func everythingHasEnded() async throws {
        try await waitUntil("no process is left", every: .milliseconds(10)) {
            postgresProcesses.isEmpty && watchdogs.isEmpty
        }
    }

    private static var processes: [pid_t] {
        ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).compactMap { pid_t($0) }
    }
}

/// A run of `sluice dev` with a complete screen.
struct DevelopmentRun: Sendable {
    let program: Program
    let address: String
    let operations: String
    let token: String

    /// Reads the screen; nil until it is complete.
    init?(_ program: Program) {
        let screen = program.output
        guard let api = Self.word(after: "API         ", in: screen), api.hasSuffix("/v1"),
            let readiness = Self.word(after: "Operations  ", in: screen), readiness.hasSuffix("/readyz"),
            let export = Self.word(after: "export TOKEN='", in: screen), export.hasSuffix("'"),
            screen.contains("/v1/changes' -H")
        else { return nil }
        self.program = program
        address = String(api.dropLast("/v1".count))
        operations = String(readiness.dropLast("/readyz".count))
        token = String(export.dropLast())
    }

    var screen: String { program.output }
    var port: Int { Int(address.split(separator: ":").last ?? "") ?? 0 }

    /// Ends the run with Ctrl-C or a stronger signal, and returns the exit status.
    func end(with signal: Int32) async throws -> Int32 {
        program.send(signal)
        return try await program.end()
    }

    /// Runs the screen's command for a path in a shell, together with the token's line, and returns its output.
    func paste(_ path: String) async throws -> Reply {
        let paragraphs = screen.components(separatedBy: "\n\n")
        let export = try #require(paragraphs.first { $0.hasPrefix("export TOKEN=") })
        let command = try #require(paragraphs.first { $0.hasPrefix("curl ") && $0.contains(path + "'") })
        return try await Self.printed(by: export + "\n" + command)
    }

    /// Runs a command of the documentation in a shell, with this run's token and address, and returns its output.
    func paste(command: String) async throws -> Reply {
        let command = command.replacing("http://127.0.0.1:8080", with: address)
        return try await Self.printed(by: "export TOKEN='\(token)'\n" + command)
    }

    private static func printed(by script: String) async throws -> Reply {
        let shell = try Program(shell: script)
        let status = try await shell.end()
        #expect(status == 0)
        #expect(shell.complaint == "")
        return Reply(status: 0, headers: [:], body: Array(shell.output.utf8))
    }

    /// Returns the response of the gateway at another address to a pull with this run's token.
    func pull(from address: String) async throws -> Reply {
        try await GatewayProcess.get(address + "/v1/changes", token: token)
    }

    /// The text after a marker, up to the next white space.
    static func word(after text: String, in screen: String) -> String? {
        guard let range = screen.range(of: text) else { return nil }
        return screen[range.upperBound...].split(whereSeparator: \.isWhitespace).first.map(String.init)
    }
}
