import Foundation
import JSONText
import SyncModel
import Synchronization

/// An upstream in memory that honours idempotency keys and records requests. A script determines its answers.
final class FakeUpstream: Upstream {
    /// The answer to a request, given the number of earlier requests with its key; nil for the usual answer.
    typealias Script = @Sendable (UpstreamRequest, _ seenBefore: Int) async -> UpstreamAnswer?

    private struct State {
        var requests: [UpstreamRequest] = []
        var answers: [UUID: UpstreamAnswer] = [:]
        var seen: [UUID: Int] = [:]
        var nextID = 1
        var effects: [UpstreamRequest] = []
    }

    private let state = Mutex(State())
    private let script: Script

    init(_ script: @escaping Script = { _, _ in nil }) {
        self.script = script
    }

    /// Every request, in the order of arrival.
    var requests: [UpstreamRequest] { state.withLock { $0.requests } }
    /// Requests that took effect, once per key.
    var effects: [UpstreamRequest] { state.withLock { $0.effects } }

    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer {
        let seen = state.withLock { state in
            state.requests.append(request)
            defer { state.seen[request.idempotencyKey, default: 0] += 1 }
            return state.seen[request.idempotencyKey] ?? 0
        }
        if let answer = await script(request, seen) { return answer }
        return take(request)
    }

    /// The usual answer: the request takes effect, unless its key already did.
    func take(_ request: UpstreamRequest) -> UpstreamAnswer {
        state.withLock { state in
            if let answer = state.answers[request.idempotencyKey] { return answer }
            state.effects.append(request)
            let answer: UpstreamAnswer
            if request.method == "POST" {
                answer = .response(UpstreamResponse(status: 201, json: Array(#"{"id":\#(state.nextID)}"#.utf8)))
                state.nextID += 1
            } else {
                answer = .response(UpstreamResponse(status: request.method == "DELETE" ? 204 : 200))
            }
            state.answers[request.idempotencyKey] = answer
            return answer
        }
    }
}

extension UpstreamAnswer {
    static func status(
        _ status: Int,
        _ json: String? = nil,
        retryAt: Timestamp? = nil,
        location: String? = nil,
        etag: String? = nil
    ) -> Self {
        .response(
            UpstreamResponse(
                status: status,
                retryAt: retryAt,
                location: location,
                etag: etag,
                json: json.map { Array($0.utf8) }
            )
        )
    }
}

extension UpstreamRequest {
    var text: String { body.map { String(decoding: $0, as: UTF8.self) } ?? "" }
    var line: String { "\(method) \(path)" }
}
