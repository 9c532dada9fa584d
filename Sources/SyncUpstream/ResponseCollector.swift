package import AsyncHTTPClient
import JSONText
package import NIOCore
package import NIOHTTP1
import SyncModel
import Synchronization

/// Collects the response to one request, and records the progress of the request.
package final class ResponseCollector: HTTPClientResponseDelegate {
    package typealias Response = CollectedResponse

    /// The error that stops the reading of a body that is too long.
    private struct TooLong: Error {}

    private struct State {
        package var isSent = false
        package var response: CollectedResponse?
        package var isCut = false
    }

    private let maximumBytes: Int
    /// The claim on memory for the body; nil if the memory of bodies is not counted.
    private let claim: ResponseMemoryBudget.Claim?
    private let state = Mutex(State())

    package init(maximumBytes: Int, claim: ResponseMemoryBudget.Claim? = nil) {
        self.maximumBytes = maximumBytes
        self.claim = claim
    }

    /// Whether the request's head was written to a connection. In this case the request may have taken effect.
    ///
    /// The value is exact, because the client, its connections and this delegate run on one event loop. After the
    /// client has written the head, it calls this delegate before it reports any other event, even the failure of the
    /// request.
    package var isSent: Bool { state.withLock { $0.isSent } }

    /// The response of a request that failed because its body was too long to be read; nil for other requests.
    package var cutResponse: CollectedResponse? { state.withLock { $0.isCut ? $0.response : nil } }

    /// Returns the response of a request that failed after an upstream had begun to respond with a success.
    ///
    /// Such a request has taken effect, even if the rest of the response is lost. If the status is not a success, the
    /// result is nil: the rest of the response may matter, and the request can safely be sent again.
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
        return proceed(unless: isTooLong, needing: neededBytes(of: length), task)
    }

    /// The number of bytes to claim for a body of unknown length of which `length` bytes have arrived.
    ///
    /// When the body uses more than half of the memory that was claimed first, memory for the longest answer to one
    /// mutation is claimed. When the body uses more than half of that memory, memory for the longest body is claimed.
    private func neededBytes(of length: Int) -> Int {
        if length <= ResponseMemoryBudget.firstPart / 2 { return 0 }
        let usual = UpstreamResponse.maximumBodyBytes
        return length <= usual / 2 ? min(usual, maximumBytes) : maximumBytes
    }

    package func didFinishRequest(task: HTTPClient.Task<Response>) throws -> CollectedResponse {
        guard let response = state.withLock({ $0.response }) else { throw HTTPClientError.remoteConnectionClosed }
        return response
    }

    /// Continues to read after memory has been reserved.
    private func proceed(
        unless isTooLong: Bool,
        needing bytes: Int,
        _ task: HTTPClient.Task<Response>
    ) -> EventLoopFuture<Void> {
        if isTooLong { return task.eventLoop.makeFailedFuture(TooLong()) }
        return claim?.extend(to: bytes, on: task.eventLoop) ?? task.eventLoop.makeSucceededVoidFuture()
    }
}

package struct CollectedResponse: Sendable {
    package var head: HTTPResponseHead
    /// The body; nil if the body was longer than the limit and was not read completely.
    package var body: ByteBuffer?
    /// Whether the response was interrupted, or did not end in time. In both cases the body contains only the part that
    /// arrived.
    package var isCutOff = false
}

extension UpstreamResponse {
    /// Reads the parts of a response that the gateway uses.
    ///
    /// - Parameter maximumBytes: the longest body that is read.
    init(_ collected: CollectedResponse, now: Timestamp, maximumBytes: Int = 1 << 20) {
        let headers = collected.head.headers
        let status = Int(collected.head.status.code)
        let body = Body(collected, maximumBytes: maximumBytes)
        let isSuccess = (200...299).contains(status)
        let name = headers.contains(name: "Location") || !isSuccess ? "Location" : "Content-Location"
        self.init(
            status: status,
            retryAt: headers.first(name: "Retry-After").flatMap { Timestamp(retryAfter: $0, now: now) },
            json: body.json,
            unkeptJSON: body.unkeptJSON,
            unusableBody: body.problem,
            isCutOff: collected.isCutOff
        )
        keepLocation(headers[name].map(HeaderField.trimmed))
        keepETag(headers["ETag"].map(HeaderField.trimmed))
        isProblem = headers["Content-Type"].contains(where: Self.isProblemType)
        let challenge = collected.head.status == .unauthorized ? "WWW-Authenticate" : "Proxy-Authenticate"
        self.challenge = headers.first(name: challenge).flatMap(Self.scheme(of:))
    }

    /// The JSON of a body, if the body is JSON.
    private struct Body {
        var json: [UInt8]?
        var unkeptJSON: [UInt8]?
        var problem: UnusableBody?

        init(_ collected: CollectedResponse, maximumBytes: Int) {
            guard let buffer = collected.body else {
                problem = .tooLong(limit: maximumBytes)
                return
            }
            let bytes = Self.trimmed(Array(buffer.readableBytesView).withoutByteOrderMark)
            guard !bytes.isEmpty else { return }
            do throws(JSONParseError) {
                let limits = JSONLimits(maximumBytes: max(JSONLimits().maximumBytes, maximumBytes))
                let tree = try JSONTree(parsing: bytes, limits: limits)
                // an incomplete object is never valid JSON, but an incomplete number can be
                if collected.isCutOff, bytes.first != UInt8(ascii: "{") { return }
                if tree.root.hasDefects { unkeptJSON = bytes } else { json = bytes }
            } catch {
                let headers = collected.head.headers
                problem = UnusableBody(bytes, encoding: headers.first(name: "Content-Encoding"), error: error)
            }
        }

        private static func trimmed(_ bytes: [UInt8]) -> [UInt8] {
            guard let first = bytes.firstIndex(where: { !isSpace($0) }),
                let last = bytes.lastIndex(where: { !isSpace($0) })
            else { return [] }
            return first == 0 && last == bytes.count - 1 ? bytes : Array(bytes[first...last])
        }

        private static func isSpace(_ byte: UInt8) -> Bool {
            byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
        }
    }

    /// The scheme of a challenge (RFC 9110, 11.6.1), without its parameters.
    private static func scheme(of challenge: String) -> String? {
        let name = String(challenge.before(" ", "\t", ","))
        return UpstreamResponse.isScheme(name) ? name : nil
    }
}
