import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Synchronization

/// An answer as it came.
struct CollectedResponse: Sendable {
    var head: HTTPResponseHead
    /// Nil when it was longer than the limit, and the rest was not read.
    var body: ByteBuffer?
    /// Whether the answer broke off, or was not there in time; then the body is what came of it.
    var isCutOff = false
}
