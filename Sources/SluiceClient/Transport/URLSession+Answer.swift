import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension URLSession {
    /// Sends a request.
    ///
    /// It ends at once when the task is cancelled, and soon after the request's time is over, whatever the session does
    /// about it: on Linux a cancelled transfer may never be heard of again.
    ///
    /// - Throws: `CancellationError`, `URLError`.
    func answer(to request: URLRequest) async throws -> (body: Data, response: URLResponse) {
        let reply = OneReply()
        let task = dataTask(with: request) { data, response, error in
            if let data, let response { return reply.give(.success((data, response))) }
            reply.give(.failure(error ?? URLError(.badServerResponse)))
        }
        let watchdog = Task {
            try await Task.sleep(for: .seconds(request.timeoutInterval + 5))
            task.cancel()
            reply.give(.failure(URLError(.timedOut)))
        }
        defer { watchdog.cancel() }
        return try await withTaskCancellationHandler {
            task.resume()
            return try await reply.value
        } onCancel: {
            task.cancel()
            reply.give(.failure(CancellationError()))
        }
    }
}

/// The first of several answers.
private final class OneReply: Sendable {
    typealias Outcome = Result<(body: Data, response: URLResponse), any Error>

    private struct State {
        var outcome: Outcome?
        var waiter: CheckedContinuation<(body: Data, response: URLResponse), any Error>?
    }

    private let state = Locked(State())

    func give(_ outcome: Outcome) {
        let waiter = state.withLock { state in
            guard state.outcome == nil else {
                return nil as CheckedContinuation<(body: Data, response: URLResponse), any Error>?
            }
            state.outcome = outcome
            return state.waiter
        }
        waiter?.resume(with: outcome)
    }

    var value: (body: Data, response: URLResponse) {
        get async throws {
            try await withCheckedThrowingContinuation { continuation in
                let outcome = state.withLock { state in
                    state.waiter = continuation
                    return state.outcome
                }
                if let outcome { continuation.resume(with: outcome) }
            }
        }
    }
}

extension URLSessionConfiguration {
    /// A copy that caches nothing: answers are of the moment, and on Linux a request that is cancelled as it begins ends
    /// the process where there is a cache.
    var uncached: URLSessionConfiguration {
        guard let copy = copy() as? URLSessionConfiguration else { return self }
        copy.urlCache = nil
        copy.requestCachePolicy = .reloadIgnoringLocalCacheData
        return copy
    }
}
