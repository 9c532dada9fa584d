import AsyncHTTPClient
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// The rate of the HTTP client library alone; see ``Options/help``.
@main
enum HTTPClientBaseline {
    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.contains("--help") || arguments.contains("-h") { return print(Options.help) }
        do {
            exit(try await run(Options(arguments)) ? 0 : 1)
        } catch {
            let line = Array("HTTPClientBaseline: \(error)\n".utf8)
            _ = write(2, line, line.count)
            exit(2)
        }
    }

    private struct Counts {
        var isMeasured = false
        var isOver = false
        var answered = 0
        var failed = 0
    }

    private final class Tally: Sendable {
        let counts = Mutex(Counts())
    }

    /// Measures and prints the line of results; returns false after a failure.
    private static func run(_ options: Options) async throws -> Bool {
        let request = try request(options)
        let tally = Tally()
        // as in the gateway, each event loop has a client, so that no request changes threads
        let clients = clients(options)
        var elapsed = Duration.zero
        var cpu: Duration = .zero
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<options.connections {
                let client = clients[index % clients.count]
                group.addTask { await send(request, with: client, tally) }
            }
            try? await Task.sleep(for: .seconds(options.warmUp))
            let (started, before) = (ContinuousClock.now, ownCPU)
            tally.counts.withLock { $0.isMeasured = true }
            try? await Task.sleep(for: .seconds(options.seconds))
            tally.counts.withLock { $0.isOver = true }
            (elapsed, cpu) = (ContinuousClock.now - started, ownCPU - before)
        }
        for client in clients { try await client.shutdown() }

        let (answered, failed) = tally.counts.withLock { ($0.answered, $0.failed) }
        let rate = Double(answered) / (elapsed / .seconds(1))
        let each = (cpu / .microseconds(1)) / Double(max(1, answered))
        print("requests=\(answered) failed=\(failed) requests_per_second=\(rate) own_cpu_us_per_request=\(each)")
        return failed == 0 && answered > 0
    }

    private static func clients(_ options: Options) -> [HTTPClient] {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = options.connections
        configuration.httpVersion = .http1Only
        return MultiThreadedEventLoopGroup.singleton.makeIterator().map {
            HTTPClient(eventLoopGroupProvider: .shared($0), configuration: configuration)
        }
    }

    private static func request(_ options: Options) throws -> HTTPClient.Request {
        let filling = String(repeating: "x", count: options.bytes - #"{"notes":""}"#.utf8.count)
        return try HTTPClient.Request(
            url: options.url,
            method: .POST,
            headers: ["Content-Type": "application/json"],
            body: .byteBuffer(ByteBuffer(string: #"{"notes":"\#(filling)"}"#))
        )
    }

    private static func send(_ request: HTTPClient.Request, with client: HTTPClient, _ tally: Tally) async {
        while !tally.counts.withLock({ $0.isOver }) {
            let isCreated = (try? await client.execute(request: request).get())?.status == .created
            tally.counts.withLock { counts in
                guard counts.isMeasured, !counts.isOver else { return }
                if isCreated { counts.answered += 1 } else { counts.failed += 1 }
            }
        }
    }

    private static var ownCPU: Duration {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        return .seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + .microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
    }
}
