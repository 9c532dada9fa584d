import AsyncHTTPClient
import JSONText
package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix

/// Sends OTLP requests to a receiver over HTTP.
package final class OTLPSender: Sendable {
    private static let maximumAnswerBytes = 65_536

    private let url: String
    private let headers: [(name: String, value: String)]
    private let userAgent: String
    private let client: HTTPClient
    private let logger: Logger

    /// Creates a sender without connections. Call ``shutdown()`` before the last reference is released.
    ///
    /// - Parameters:
    ///   - endpoint: the base URL of the receiver, without a slash at its end.
    ///   - headers: additional headers, such as a credential.
    package init(endpoint: String, headers: [(name: String, value: String)], version: String, logger: Logger) {
        url = endpoint + "/v1/traces"
        self.headers = headers
        userAgent = "sluice/\(version)"
        self.logger = logger
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.timeout.connect = .seconds(3)
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.httpVersion = .http1Only
        // exports are not traced: each would cause the next
        configuration.tracing.tracer = nil
        // one loop for requests and connections, for the reason at the initializer of HTTPUpstream's clients
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        client = HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }

    package func shutdown() async {
        do {
            try await client.shutdown()
        } catch {
            logger.debug("Connections were not closed", metadata: ["error": "\(type(of: error))"])
        }
    }

    /// Sends a request. It never throws, because every failure is an answer.
    package func send(_ body: [UInt8], within timeout: Duration) async -> ExportAnswer {
        var fields = HTTPHeaders(headers.map { ($0.name, $0.value) })
        fields.replaceOrAdd(name: "Content-Type", value: "application/json")
        fields.replaceOrAdd(name: "User-Agent", value: userAgent)
        guard
            let request = try? HTTPClient.Request(
                url: url,
                method: .POST,
                headers: fields,
                body: .byteBuffer(ByteBuffer(bytes: body))
            )
        else { return .refused("the URL cannot be used") }
        let collector = ResponseAccumulator(request: request, maxBodySize: Self.maximumAnswerBytes)
        let task = client.execute(request: request, delegate: collector, deadline: .now() + TimeAmount(timeout))
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
            }
            let retryAfter = response.headers.first(name: "Retry-After")
            return Self.answer(
                Int(response.status.code),
                retryAfter,
                Array(response.body?.readableBytesView ?? .init())
            )
        } catch {
            return .failed("no response: \(error)")
        }
    }

    /// The meaning of a response (OTLP 1.9, OTLP/HTTP Response).
    static func answer(_ status: Int, _ retryAfter: String?, _ body: [UInt8]) -> ExportAnswer {
        switch status {
        case 200...299: return .accepted(rejected: rejected(body))
        case 429, 502, 503, 504:
            let seconds = retryAfter.flatMap(Int.init).map { max(0, $0) }
            return .failed("status \(status)", retryAfter: seconds.map { .seconds($0) })
        default: return .refused("status \(status)")
        }
    }

    /// The number of spans that the receiver rejects. 64-bit numbers are strings, and some receivers send numbers.
    private static func rejected(_ body: [UInt8]) -> Int {
        guard let value = (try? JSONTree(parsing: body))?.root["partialSuccess"]?["rejectedSpans"] else { return 0 }
        let text = value.kind == .number ? String(decoding: value.raw, as: UTF8.self) : value.string
        return text.flatMap(Int.init) ?? 0
    }
}
