import CommandSupport
import Foundation
import JSONText
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import SyncHTTP
import SyncModel
import Synchronization

/// The demo's REST API on a port of this machine.
///
/// The API accepts connections as soon as ``listen(port:now:report:)`` returns. Its documents are lost when the process
/// ends.
final class DemoUpstream: Service {
    let address: ListenAddress
    /// Reports changes to a gateway.
    let webhook: DemoWebhook
    private let channel: any Channel
    private let report: @Sendable (String) -> Void

    private init(
        _ channel: any Channel,
        _ address: ListenAddress,
        _ webhook: DemoWebhook,
        report: @escaping @Sendable (String) -> Void
    ) {
        self.channel = channel
        self.address = address
        self.webhook = webhook
        self.report = report
    }

    /// - Parameters:
    ///   - port: a port on 127.0.0.1; 0 uses any free port.
    ///   - now: the API's clock.
    ///   - report: receives a line about each request.
    static func listen(
        port: Int,
        now: @escaping TimeSource = SystemClock.now,
        report: @escaping @Sendable (String) -> Void
    ) async throws(DemoUpstreamError) -> DemoUpstream {
        let webhook = DemoWebhook()
        let state = Shared(webhook, now: now)
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    let connection = DemoConnection { request in state.answer(request, report: report) }
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
        do {
            let channel = try await bootstrap.bind(host: host, port: port).get()
            let address = ListenAddress(host: host, port: channel.localAddress?.port ?? port)
            return DemoUpstream(channel, address, webhook, report: report)
        } catch {
            let place = ListenAddress(host: host, port: port)
            throw DemoUpstreamError(
                "\(place) cannot be used (\(error)); choose another port with --demo-upstream-port, or 0."
            )
        }
    }

    /// Waits for graceful shutdown, or for cancellation.
    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.webhook.run(report: self.report) }
            try? await gracefulShutdown()
            group.cancelAll()
        }
        try? await channel.close()
    }

    private static let host = "127.0.0.1"

    /// The state that all connections share.
    private final class Shared: Sendable {
        private let collections: Mutex<DemoCollections>
        private let webhook: DemoWebhook

        init(_ webhook: DemoWebhook, now: @escaping TimeSource) {
            collections = Mutex(DemoCollections(now: now))
            self.webhook = webhook
        }

        func answer(_ request: DemoRequest, report: (String) -> Void) -> DemoAnswer {
            let answer = collections.withLock { collections in
                let answer = collections.answerOfEndpoint(request) ?? collections.answer(request)
                // recorded under the lock, so that the events are in the order of the changes
                for change in collections.takeChanges() { webhook.record(change) }
                return answer
            }
            report(DemoLine.text(request, answer))
            return answer
        }
    }
}

/// The reason why the API cannot start, with an instruction.
struct DemoUpstreamError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

// MARK: - DemoConnection

/// One connection to the demo's REST API: collects a request and writes the response.
final class DemoConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let answer: @Sendable (DemoRequest) -> DemoAnswer
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var isTooLarge = false

    init(answer: @escaping @Sendable (DemoRequest) -> DemoAnswer) {
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
            isTooLarge = false
        case .body(let part):
            isTooLarge = isTooLarge || body.count + part.readableBytes > DemoDocument.maximumBytes
            if !isTooLarge { body.append(contentsOf: part.readableBytesView) }
        case .end:
            guard let head else { return }
            self.head = nil
            write(answer(to: head), to: head, in: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func answer(to head: HTTPRequestHead) -> DemoAnswer {
        if isTooLarge {
            return DemoAnswer(status: 413, remark: "a body may have at most \(DemoDocument.maximumBytes) bytes")
        }
        // `sluice dev` sends a colleague's edit with the gateway's HTTP client, which adds an idempotency key; this API
        // ignores the key, because the edit is not a replay
        let isColleague = head.headers.contains(name: "x-demo-colleague")
        return answer(
            DemoRequest(
                method: head.method == .HEAD ? "GET" : head.method.rawValue,
                target: head.uri,
                idempotencyKey: isColleague ? nil : head.headers.first(name: "idempotency-key"),
                ifMatch: head.headers.first(name: "if-match"),
                ifNoneMatch: head.headers.first(name: "if-none-match"),
                user: head.headers.first(name: "x-sluice-user").flatMap(UUID.init(parsing:)),
                body: body
            )
        )
    }

    private func write(_ answer: DemoAnswer, to request: HTTPRequestHead, in context: ChannelHandlerContext) {
        let keepAlive = request.isKeepAlive
        var headers = HTTPHeaders()
        if answer.body != nil { headers.add(name: "content-type", value: "application/json") }
        if answer.status != 204, answer.status != 304 {
            headers.add(name: "content-length", value: "\(answer.body?.count ?? 0)")
        }
        if let etag = answer.etag { headers.add(name: "etag", value: etag) }
        if let location = answer.location { headers.add(name: "location", value: location) }
        if let link = answer.link { headers.add(name: "link", value: link) }
        if !keepAlive { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body = answer.body, request.method != .HEAD {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        }
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            if !keepAlive { channel.close(promise: nil) }
        }
    }
}

struct DemoRequest: Sendable {
    var method: String
    /// The target of the request line, with the query if there is one.
    var target: String
    var idempotencyKey: String?
    /// `If-Match`.
    var ifMatch: String?
    /// `If-None-Match`.
    var ifNoneMatch: String?
    /// `X-Sluice-User`: the user whose mutation the gateway replays; nil for other clients of the API.
    var user: UUID?
    var body: [UInt8] = []

    /// The path without the query.
    var path: Substring { target.before("?") }

    /// Returns the decoded value of a query parameter; nil if the query does not have the parameter.
    func parameter(_ name: String) -> String? {
        guard let query = target.firstIndex(of: "?") else { return nil }
        for pair in target[target.index(after: query)...].split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts[0] == name { return (parts.count > 1 ? String(parts[1]) : "").removingPercentEncoding }
        }
        return nil
    }

    /// Whether another request has the same method, target and body. The conditions (`If-Match` and `If-None-Match`)
    /// may differ.
    func isRepeated(by other: DemoRequest) -> Bool {
        method == other.method && target == other.target && body == other.body
    }
}

/// Formats the terminal's line about a request to the demo's REST API.
enum DemoLine {
    /// The maximum number of shown characters of a target and of a body.
    private static let limit = 120

    static func text(_ request: DemoRequest, _ answer: DemoAnswer) -> String {
        var line = "upstream: \(request.method) \(cut(request.target)) → \(answer.status)"
        if !answer.remark.isEmpty { line += " (\(cut(answer.remark)))" }
        if !request.body.isEmpty { line += "  \(cut(String(decoding: request.body, as: UTF8.self)))" }
        return line
    }

    /// Returns a text without control characters, which a terminal would interpret.
    private static func cut(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(limit).filter { $0.properties.generalCategory != .control }
        return String(String.UnicodeScalarView(shown)) + (text.unicodeScalars.count > limit ? "…" : "")
    }
}

/// The API's response, with its reason as text for a terminal.
struct DemoAnswer: Sendable {
    var status: Int
    /// The body as JSON; nil if there is no body.
    var body: [UInt8]?
    var etag: String?
    var location: String?
    /// The value of `Link`.
    var link: String?
    /// The reason for the operator's screen; empty if the status is sufficient.
    var remark = ""
}

/// The OpenAPI document of the demo's REST API, from which `sluice upstream import` reads its routes.
enum DemoContract {
    static let path = "/openapi.json"

    private static let collections = ["contacts", "activities", "expenses"]

    static let json = Array(
        """
        {"openapi": "3.1.0", "info": {"title": "Demo upstream", "version": "1"},
         "paths": {\(collections.map(paths).joined(separator: ", "))},
         "components": {"schemas": {"Document": {"type": "object", "properties": {"id": {"type": "integer"}}}}}}
        """.utf8
    )

    private static func paths(of collection: String) -> String {
        let content = ##""content": {"application/json": {"schema": {"$ref": "#/components/schemas/Document"}}}"##
        let done = #""responses": {"200": {"description": "The document.", \#(content)}}"#
        let made = #""responses": {"201": {"description": "The new document.", \#(content)}}"#
        let id = #"{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}"#
        return """
            "/\(collection)": {"post": {"requestBody": {\(content)}, \(made)}},
            "/\(collection)/{id}": {"parameters": [\(id)], "get": {\(done)},
              "patch": {"requestBody": {\(content)}, \(done)}, "put": {"requestBody": {\(content)}, \(done)},
              "delete": {"responses": {"204": {"description": "The document is deleted."}}}}
            """
    }
}
