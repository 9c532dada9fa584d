import CommandSupport
import JSONText
import NIOCore
import NIOHTTP1
import StandardWebhooks
import SyncModel

/// Prints the webhooks that `sluice webhooks listen` receives, and responds to them.
struct WebhookInspector: Sendable {
    /// Bytes of a body that are taken.
    static let maximumBytes = 1_048_576
    /// Characters of a line that are shown.
    static let maximumShown = 4_000

    /// Nil if nothing is checked.
    let verifier: WebhookVerifier?
    /// The status of the response to a valid webhook.
    let answer: Int
    let now: TimeSource

    /// - Parameter body: nil if it is too long.
    func take(_ head: HTTPRequestHead, _ body: [UInt8]?) -> (status: Int, text: String) {
        let moment = now()
        var lines = ["\(moment.rfc3339) \(Self.shown(head.method.rawValue)) \(Self.shown(head.uri))"]
        guard head.method == .POST else {
            lines.append("  not a POST request: responded with 405")
            return (405, lines.joined(separator: "\n"))
        }
        guard let body else {
            lines.append("  longer than \(Self.maximumBytes) bytes: responded with 413")
            return (413, lines.joined(separator: "\n"))
        }
        for name in [WebhookHeader.id, WebhookHeader.timestamp] {
            lines.append("  \(name): \(head.headers.first(name: name).map(Self.shown) ?? "missing")")
        }
        let (verdict, holds) = verdict(head.headers, body, moment)
        lines.append("  signature: \(verdict)")
        lines.append("  " + Self.shown(String(decoding: body, as: UTF8.self)))
        if (try? JSONTree(parsing: body)) == nil { lines.append("  the body is not JSON") }
        let status = holds ? answer : 400
        lines.append("  answered \(status)")
        return (status, lines.joined(separator: "\n"))
    }

    private func verdict(_ headers: HTTPHeaders, _ body: [UInt8], _ moment: Timestamp) -> (String, holds: Bool) {
        guard let verifier else { return ("not checked", true) }
        do throws(WebhookVerificationError) {
            try verifier.verify(
                id: headers.first(name: WebhookHeader.id),
                timestamp: headers.first(name: WebhookHeader.timestamp),
                signatures: headers.first(name: WebhookHeader.signature),
                body: body,
                now: moment.seconds
            )
            return ("holds", true)
        } catch {
            return ("INVALID: \(error)", false)
        }
    }

    /// Returns a text without control characters and others that change how a terminal shows their neighbors.
    static func shown(_ text: String) -> String { TerminalText.of(text, upTo: maximumShown) }
}

/// One connection: collects a request, shows it, and writes the response.
final class WebhookConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let inspector: WebhookInspector
    private var head: HTTPRequestHead?
    private var body: [UInt8]? = []

    init(inspector: WebhookInspector) {
        self.inspector = inspector
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
        case .body(let part):
            if let count = body?.count, count + part.readableBytes <= WebhookInspector.maximumBytes {
                body?.append(contentsOf: part.readableBytesView)
            } else {
                body = nil
            }
        case .end:
            guard let head else { return }
            self.head = nil
            let (status, text) = inspector.take(head, body)
            Terminal.output(text)
            write(status, to: head, in: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func write(_ status: Int, to request: HTTPRequestHead, in context: ChannelHandlerContext) {
        let keepAlive = request.isKeepAlive
        var headers = HTTPHeaders()
        if status != 204, status != 304 { headers.add(name: "content-length", value: "0") }
        if !keepAlive { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            if !keepAlive { channel.close(promise: nil) }
        }
    }
}
