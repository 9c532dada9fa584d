import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1

/// Checks the heads of requests before they are converted for later handlers. These handlers receive neither the HTTP
/// version of a request nor the number of its `Host` fields.
///
/// An HTTP/1.0 client's connection is closed after the response, because the close marks the end of the response for
/// such a client. These requests are refused:
///
/// - Requests without exactly one `Host` (RFC 9112, 3.2). If a request had several `Host` fields, a proxy could use
///   another field than the gateway, and send the request to another server. HTTP/1.0 requests may omit `Host`.
/// - Requests with a transfer coding other than `chunked`, and HTTP/1.0 requests with any transfer coding (6.1). The
///   gateway would not decode the body, and a proxy may read the request differently.
final class HeadCheck: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    /// Whether a request was refused. The bytes after it are not read as a request.
    private var isRefused = false

    /// Adds a check before the handler that converts heads.
    static func check(on pipeline: ChannelPipeline) throws {
        let operations = pipeline.syncOperations
        let codec = try operations.handler(type: HTTP1ToHTTPServerCodec.self)
        try operations.addHandler(HeadCheck(), position: .before(codec))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        guard case .head(var head) = unwrapInboundIn(data) else {
            context.fireChannelRead(data)
            return
        }
        let isFirstVersion = head.version.major == 1 && head.version.minor == 0
        let hosts = Self.hosts(head.headers)
        let codings = head.headers["Transfer-Encoding"]
        let isFramed = codings.isEmpty || !isFirstVersion && codings.count == 1 && codings[0].lowercased() == "chunked"
        guard isFramed, hosts == 1 || isFirstVersion && hosts == 0 else {
            isRefused = true
            context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
            return
        }
        guard isFirstVersion else {
            context.fireChannelRead(data)
            return
        }
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private static func hosts(_ headers: HTTPHeaders) -> Int {
        var count = 0
        for (name, _) in headers where name.utf8.count == 4 && name.lowercased() == "host" { count += 1 }
        return count
    }
}

/// Allocates the memory into which a connection's bytes are read.
///
/// The size adapts to the last reads, up to 8 KiB. Each read gets a new buffer, so that a connection keeps only its
/// first buffer between requests. With thousands of connections, these buffers determine the memory usage.
struct ReadBuffers: RecvByteBufferAllocator {
    /// The initial size suffices for a small request. A request that needs a second read also needs a timer and a task.
    private var sizes = AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 2_048, maximum: 8_192)

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer { sizes.buffer(allocator: allocator) }

    /// - Returns: true, so that the channel does not reuse the last buffer.
    mutating func record(actualReadBytes: Int) -> Bool {
        _ = sizes.record(actualReadBytes: actualReadBytes)
        return true
    }

    /// Returns nil, because otherwise the channel would keep a buffer of this size (`NIOPooledRecvBufferAllocator`).
    func nextBufferSize() -> Int? { nil }
}
