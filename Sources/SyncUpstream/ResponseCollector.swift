package import AsyncHTTPClient
package import NIOCore
package import NIOHTTP1
import Synchronization

/// Gathers the answer to one request, and notes how far the request got.
package final class ResponseCollector: HTTPClientResponseDelegate {
    package typealias Response = CollectedResponse

    /// Ends the reading of a body that is too long.
    private struct TooLong: Error {}

    private struct State {
        package var isSent = false
        package var response: CollectedResponse?
        package var isCut = false
    }

    private let maximumBytes: Int
    /// Nil where bodies are not counted.
    private let claim: ResponseMemoryBudget.Claim?
    private let state = Mutex(State())

    package init(maximumBytes: Int, claim: ResponseMemoryBudget.Claim? = nil) {
        self.maximumBytes = maximumBytes
        self.claim = claim
    }

    /// Whether the request's head was put on a connection: from then on it may take effect.
    ///
    /// Exact, because the client, its connections and this delegate run on one event loop: the client reports it
    /// before it does anything else, even before it fails the request.
    package var isSent: Bool { state.withLock { $0.isSent } }

    /// The answer, for a request that failed because reading was stopped; nil otherwise.
    package var cutResponse: CollectedResponse? { state.withLock { $0.isCut ? $0.response : nil } }

    /// Returns the response of a request that failed after an upstream had begun to respond with a success.
    ///
    /// Such a request has taken effect, even if the rest is lost. Nil otherwise: the rest of other responses may
    /// matter, and sending the request again does no harm.
    package var brokenSuccess: CollectedResponse? {
        state.withLock { state in
            guard var response = state.response, (200...299).contains(response.head.status.code) else { return nil }
            response.isCutOff = true
            return response
        }
    }

    package func didSendRequestHead(task: HTTPClient.Task<Response>, _ head: HTTPRequestHead) {
        state.withLock { $0.isSent = true }
    }

    package func didReceiveHead(task: HTTPClient.Task<Response>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        let length = head.headers.first(name: "Content-Length").flatMap { Int($0) }
        let isTooLong = state.withLock { state in
            state.isCut = length ?? 0 > maximumBytes
            state.response = CollectedResponse(head: head, body: state.isCut ? nil : ByteBuffer())
            return state.isCut
        }
        return proceed(unless: isTooLong, needing: length ?? min(ResponseMemoryBudget.firstPart, maximumBytes), task)
    }

    package func didReceiveBodyPart(task: HTTPClient.Task<Response>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        let (isTooLong, length) = state.withLock { state in
            let length = (state.response?.body?.readableBytes ?? 0) + buffer.readableBytes
            state.isCut = length > maximumBytes
            if state.isCut {
                state.response?.body = nil
            } else if length == buffer.readableBytes {
                state.response?.body = buffer
            } else {
                state.response?.body?.writeImmutableBuffer(buffer)
            }
            let hasLength = state.response?.head.headers.contains(name: "Content-Length") ?? false
            return (state.isCut, hasLength ? 0 : length)
        }
        // a body of unknown length may be read to its limit, once it is not a short one
        return proceed(unless: isTooLong, needing: length > ResponseMemoryBudget.firstPart / 2 ? maximumBytes : 0, task)
    }

    package func didFinishRequest(task: HTTPClient.Task<Response>) throws -> CollectedResponse {
        guard let response = state.withLock({ $0.response }) else { throw HTTPClientError.remoteConnectionClosed }
        return response
    }

    /// Reads on as soon as there is room.
    private func proceed(
        unless isTooLong: Bool,
        needing bytes: Int,
        _ task: HTTPClient.Task<Response>
    ) -> EventLoopFuture<Void> {
        if isTooLong { return task.eventLoop.makeFailedFuture(TooLong()) }
        return claim?.extend(to: bytes, on: task.eventLoop) ?? task.eventLoop.makeSucceededVoidFuture()
    }
}
