import Foundation
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

/// `scripts/chaos`: two gateways, an upstream that misbehaves, and a checker of what reached it.
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: python != nil, "python3 is not installed"))
struct ChaosTests {
    @Test func theCheckerFindsWhatItShould() async throws {
        let run = try await Self.chaos("--self-test", within: .seconds(30))
        #expect(run.status == 0, "\(run.output)")
    }

    @Test func everythingTakesEffectOnceAndInOrderWhateverFails() async throws {
        let logs = FileManager.default.temporaryDirectory.appending(path: "sluice-chaos-\(UUID().uuidString)").path
        let run = try await Self.chaos("--short --sluice '\(Program.path)' --logs '\(logs)'", within: .seconds(90))
        #expect(run.status == 0, "\(run.output)\(run.complaint)")
        // what it was about stays for whoever has to find out
        if run.status == 0 { try? FileManager.default.removeItem(atPath: logs) }
    }

    private static func chaos(_ options: String, within limit: Duration) async throws -> Program.Result {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized.path
        let program = try Program(shell: "exec '\(python ?? "python3")' '\(root)/scripts/chaos' \(options)")
        let status = try await program.end(within: limit)
        return Program.Result(status: status, output: program.output, complaint: program.complaint)
    }
}
