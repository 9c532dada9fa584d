import Foundation
import JSONText
import NIOCore
import NIOHTTP1

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
        return answer(
            DemoRequest(
                method: head.method == .HEAD ? "GET" : head.method.rawValue,
                target: head.uri,
                idempotencyKey: head.headers.first(name: "idempotency-key"),
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
