import HTTPTypes
import NIOCore
import SyncModel
import Telemetry

/// A request that has arrived as a whole, as direct endpoints get it.
package struct DirectExchange: Sendable {
    let head: HTTPRequest
    let body: [UInt8]
    let eventLoop: any EventLoop
    /// Names the request in log lines.
    let context: LogContext
    /// Receives the response, once, on the event loop, after the endpoint has returned.
    let reply: @Sendable (Result<Answer, any Error>) -> Void

    /// The room for its response.
    let hold: ResponseMemoryLease
    /// The caller's user, once authenticated.
    var user = LaneKey.nobody

    var headers: HTTPFields { head.headerFields }
}
