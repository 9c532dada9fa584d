import CommandSupport
import FoundationEssentials
import ServiceLifecycle
import Subprocess
import SyncHTTP
import SyncModel
import Synchronization
import SystemPackage

/// The demo's REST API: the program `sluice-demo-upstream`, which runs as long as this process.
///
/// The first line of its output is its address, or the reason why it cannot start. Each further line reports a request.
/// The program ends when its input is closed. The system closes the input when this process ends in any way.
final class DemoUpstreamProcess: Service {
    static let program = "sluice-demo-upstream"

    let address: ListenAddress
    private let input: StandardInputWriter
    private let hasEnded = Mutex(false)
    private let ends = AsyncStream.makeStream(of: Void.self)

    private init(_ address: ListenAddress, _ input: StandardInputWriter) {
        self.address = address
        self.input = input
    }

    /// Runs the program while `body` runs, in a separate session, so that only this process receives a Ctrl-C.
    ///
    /// - Parameter port: the port on 127.0.0.1; 0 uses any free port.
    static func whileRunning(port: Int, _ body: (DemoUpstreamProcess) async throws -> Void) async throws {
        var options = PlatformOptions()
        options.createSession = true
        _ = try await Subprocess.run(
            .path(FilePath(try executable())),
            arguments: ["--port", "\(port)"],
            platformOptions: options,
            input: .inputWriter,
            output: .sequence,
            error: .currentStandardError
        ) { execution in
            let lines = AsyncStream.makeStream(of: String.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    do {
                        for try await line in execution.standardOutput.strings() { lines.continuation.yield(line) }
                    } catch {}
                    lines.continuation.finish()
                }
                do {
                    let first = await lines.stream.first { _ in true } ?? "\(program) has ended."
                    guard let address = ListenAddress(parsing: first) else { throw DevelopmentError(first) }
                    let process = DemoUpstreamProcess(address, execution.standardInputWriter)
                    group.addTask { await process.show(lines.stream) }
                    try await body(process)
                } catch {
                    try? await execution.standardInputWriter.finish()
                    throw error
                }
                try await execution.standardInputWriter.finish()
                try await group.waitForAll()
            }
        }
    }

    private func show(_ reports: AsyncStream<String>) async {
        for await line in reports { Terminal.output(line) }
        hasEnded.withLock { $0 = true }
        ends.continuation.finish()
    }

    /// Makes the program report changes to a gateway.
    func report(to gateway: ListenAddress, token: ServiceToken) async {
        _ = try? await input.write("\(gateway) \(token.text)\n")
    }

    /// Waits for graceful shutdown, or for the program's end.
    func run() async throws {
        await cancelWhenGracefulShutdown { [ends] in
            for await _ in ends.stream {}
        }
        if hasEnded.withLock(\.self) { throw DevelopmentError("\(Self.program) has ended") }
    }

    /// The program's path, in the folder of the running program.
    private static func executable() throws -> String {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let path = own.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/" + program
        if FileManager.default.isExecutableFile(atPath: path) { return path }
        throw DevelopmentError(
            "--demo-upstream needs \(path), which does not exist. Build it with `make run UPSTREAM=demo`, or with "
                + "`swift build --traits Gateway --product \(program)`."
        )
    }
}
