import AsyncHTTPClient
package import NIOCore
package import NIOHTTP1
import Synchronization

package struct CollectedResponse: Sendable {
    package var head: HTTPResponseHead
    /// Nil if it was longer than the limit, and the rest was not read.
    package var body: ByteBuffer?
    /// Whether the response broke off, or did not end in time; then the body is the part that arrived.
    package var isCutOff = false
}
