import Foundation
import GatewaySupport
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

/// `scripts/chaos` and `scripts/rolling-upgrade`: two gateways, an upstream that misbehaves, and a checker of the
/// requests that reached it.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: python != nil, "python3 is not installed"))
struct ChaosTests {
    @Test func `the checker detects each falsified run`() async throws {
        let run = try await Self.run("chaos", "--self-test")
        #expect(run.status == 0, "\(run.output)")
    }

    @Test func `every mutation takes effect once and in order despite faults`() async throws {
        let logs = FileManager.default.temporaryDirectory.appending(path: "sluice-chaos-\(UUID().uuidString)").path
        let options = "--short --sluice '\(Program.path)' --logs '\(logs)'"
        let run = try await Self.run("chaos", options)
        #expect(run.status == 0, "\(run.output)\(run.complaint)")
        // the logs stay for the analysis of a failure
        if run.status == 0 { try? FileManager.default.removeItem(atPath: logs) }
    }

    /// Both versions are the present one, because no older binary is available here.
    @Test func `a rolling upgrade under load causes no errors for clients`() async throws {
        let logs = FileManager.default.temporaryDirectory.appending(path: "sluice-upgrade-\(UUID().uuidString)").path
        let options = "--old '\(Program.path)' --new '\(Program.path)' --seconds 1 --lanes 30 --logs '\(logs)'"
        let run = try await Self.run("rolling-upgrade", options)
        #expect(run.status == 0, "\(run.output)\(run.complaint)")
        if run.status == 0 { try? FileManager.default.removeItem(atPath: logs) }
    }

    /// The scripts end hanging processes themselves.
    private static func run(_ script: String, _ options: String) async throws -> Program.Result {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized.path
        let program = try Program(shell: "exec '\(python ?? "python3")' '\(root)/scripts/\(script)' \(options)")
        return try await program.result(within: .seconds(570))
    }
}
