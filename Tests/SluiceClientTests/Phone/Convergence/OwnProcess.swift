import Foundation

/// A second instance of this program, with one suite of its tests.
enum OwnProcess {
    enum End: Equatable {
        case killed
        /// The output of a process that was not killed.
        case ended(String)
    }

    static func make(_ suite: String, _ environment: [String: String]) -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = ["--testing-library", "swift-testing", "--filter", suite]
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardError = FileHandle.nullDevice
        return process
    }

    /// Runs the process to its end.
    static func run(_ suite: String, _ environment: [String: String]) async throws -> End {
        let process = make(suite, environment)
        let output = FileManager.default.temporaryDirectory.appending(path: "own-\(UUID().uuidString).log")
        try Data().write(to: output)
        defer { try? FileManager.default.removeItem(at: output) }
        // swift-testing reports errors there
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        let status = try await withCheckedThrowingContinuation { continuation in
            process.terminationHandler = {
                continuation.resume(returning: ($0.terminationReason, $0.terminationStatus))
            }
            do { try process.run() } catch { continuation.resume(throwing: error) }
        }
        if status == (.uncaughtSignal, SIGKILL) { return .killed }
        let text = (try? String(contentsOf: output, encoding: .utf8)) ?? ""
        return .ended("\(status): \(text.suffix(2_000))")
    }
}
