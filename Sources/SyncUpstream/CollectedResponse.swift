import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Synchronization

struct CollectedResponse: Sendable {
    var head: HTTPResponseHead
    /// Nil when it was longer than the limit, and the rest was not read.
    var body: ByteBuffer?
    /// Whether the answer broke off, or did not end in time; then the body is the part that arrived.
    var isCutOff = false
}
