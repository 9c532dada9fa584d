import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix

/// The reason why there was no response. The error's text is omitted, because it may quote headers.
package enum RequestFailure: Equatable {
    case cancelled
    case timedOut
    case connectTimedOut
    case refused
    case unresolved
    case closed
    case shutDown
    case other

    package init(_ error: any Error) {
        self =
            switch error {
            case let error as HTTPClientError: Self.of(error)
            case let error as NIOConnectionError: Self.of(error)
            case let error as IOError: error.errnoCode == ECONNREFUSED ? .refused : .closed
            case ChannelError.connectTimeout: .connectTimedOut
            case is CancellationError: .cancelled
            case is ChannelError: .closed
            default: .other
            }
    }

    /// - Parameters:
    ///   - isSent: whether the request's head was written to a connection.
    ///   - timeout: the time limit of the request.
    package func reason(isSent: Bool, isTLS: Bool, timeout: Duration) -> String {
        switch self {
        case .cancelled: "cancelled"
        case .timedOut: "timed out after \(Self.text(timeout))" + (isSent ? "" : ", before it was sent")
        case .connectTimedOut: "connecting timed out"
        case .refused: "connection refused"
        case .unresolved: "the host's name could not be resolved"
        case .shutDown: "the gateway is shutting down"
        case .closed: isSent ? "the connection was closed before a response" : "the connection was closed"
        case .other where isSent: "the response was not HTTP, or was incomplete"
        case .other: isTLS ? "no TLS connection could be established" : "no connection could be established"
        }
    }

    private static func of(_ error: HTTPClientError) -> RequestFailure {
        switch error {
        case .cancelled: .cancelled
        case .deadlineExceeded: .timedOut
        case .connectTimeout, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout: .connectTimedOut
        case .remoteConnectionClosed: .closed
        case .alreadyShutdown: .shutDown
        default: .other
        }
    }

    private static func of(_ error: NIOConnectionError) -> RequestFailure {
        if error.connectionErrors.isEmpty { return .unresolved }
        let failures = error.connectionErrors.map { RequestFailure($0.error) }
        return failures.first { $0 == .refused } ?? failures.first { $0 == .connectTimedOut } ?? .other
    }

    /// The duration in seconds, with milliseconds if there are any.
    private static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        return milliseconds == 0 ? "\(seconds) s" : "\(seconds * 1_000 + milliseconds) ms"
    }
}

/// Treats a response whose status is below 100 as missing.
///
/// RFC 9110, section 15, defines no status below 100. The underlying client skips all heads with a status below 200,
/// and ends the process when the body of a response with such a head arrives.
///
/// The handler is placed after the decoder of responses.
final class StatusCheck: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    private var isRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isRefused { return }
        guard case .head(let head) = unwrapInboundIn(data), head.status.code < 100 else {
            return context.fireChannelRead(data)
        }
        isRefused = true
        context.fireErrorCaught(HTTPParserError.invalidStatus)
        context.close(promise: nil)
    }
}
