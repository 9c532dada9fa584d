import Foundation
import GatewaySupport
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

/// `scripts/chaos` and `scripts/rolling-upgrade`: two gateways, an upstream that misbehaves, and a checker of what
/// reached it.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: python != nil, "python3 is not installed"))
struct ChaosTests {
    @Test func `the checker finds what it should`() async throws {
        let run = try await Self.run("chaos", "--self-test")
        #expect(run.status == 0, "\(run.output)")
    }

    @Test func `everything takes effect once and in order whatever fails`() async throws {
        let logs = FileManager.default.temporaryDirectory.appending(path: "sluice-chaos-\(UUID().uuidString)").path
        let options = "--short --sluice '\(Program.path)' --logs '\(logs)'"
        let run = try await Self.run("chaos", options)
        #expect(run.status == 0, "\(run.output)\(run.complaint)")
        // what it was about stays for whoever has to find out
        if run.status == 0 { try? FileManager.default.removeItem(atPath: logs) }
    }

    /// Both versions are this one here: an older binary is for whoever has one.
    @Test func `gateways are replaced one by one under load and nobody notices`() async throws {
        let logs = FileManager.default.temporaryDirectory.appending(path: "sluice-upgrade-\(UUID().uuidString)").path
        let options = "--old '\(Program.path)' --new '\(Program.path)' --seconds 1 --lanes 30 --logs '\(logs)'"
        let run = try await Self.run("rolling-upgrade", options)
        #expect(run.status == 0, "\(run.output)\(run.complaint)")
        if run.status == 0 { try? FileManager.default.removeItem(atPath: logs) }
    }

    /// The scripts give up by themselves what hangs.
    private static func run(_ script: String, _ options: String) async throws -> Program.Result {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized.path
        let program = try Program(shell: "exec '\(python ?? "python3")' '\(root)/scripts/\(script)' \(options)")
        return try await program.result(within: .seconds(570))
    }
}
