import ArgumentParser
import CommandSupport
import Foundation
import SyncHTTP
import SyncModel

/// The program `sluice-demo-upstream`, which `sluice dev --demo-upstream` starts.
@main
struct DemoUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sluice-demo-upstream",
        abstract: "A small REST API over documents in memory: the upstream of sluice dev --demo-upstream.",
        discussion: """
            EXAMPLES
              sluice-demo-upstream --port 9000

            Prints its address, then a line for each request. A line of input, the address of a gateway and a service \
            token, makes it report changes to the gateway. Ends with its input.
            """,
        version: Version.current
    )

    @Option(help: "Port on 127.0.0.1; 0 selects a free port.")
    var port = 0

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be from 0 to 65535.") }
    }

    func run() async throws {
        let upstream: DemoUpstream
        do throws(DemoUpstreamError) {
            upstream = try await .listen(port: port) { Terminal.output($0) }
        } catch {
            Terminal.output(error.description)
            throw ExitCode.failure
        }
        Terminal.output(upstream.address.description)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await upstream.run() }
            for await line in Self.input() {
                let words = line.split(separator: " ")
                guard words.count == 2, let gateway = ListenAddress(parsing: String(words[0])),
                    let token = ServiceToken(parsing: words[1])
                else { continue }
                upstream.webhook.notify(gateway, token: token)
            }
            group.cancelAll()
        }
    }

    /// The lines of standard input, which a separate thread reads because reading can block.
    private static func input() -> AsyncStream<String> {
        let lines = AsyncStream.makeStream(of: String.self)
        Thread.detachNewThread {
            while let line = readLine() { lines.continuation.yield(line) }
            lines.continuation.finish()
        }
        return lines.stream
    }
}
