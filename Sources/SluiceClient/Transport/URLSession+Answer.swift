package import Foundation

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

extension URLSession {
    /// Sends a request.
    ///
    /// It ends immediately when the task is cancelled or the time is over, regardless of the session: on Linux a
    /// cancelled transfer may never report its end. The request's own `timeoutInterval` restarts with each byte.
    ///
    /// - Parameter seconds: the time until the response must be complete.
    /// - Throws: `CancellationError`, `URLError`.
    package func answer(to request: URLRequest, within seconds: TimeInterval) async throws -> (
        body: Data, response: URLResponse
    ) {
        let reply = Promise<(body: Data, response: URLResponse)>()
        let task = dataTask(with: request) { data, response, error in
            let answer = data.flatMap { data in response.map { (body: data, response: $0) } }
            reply.give(answer.map(Result.success) ?? .failure(error ?? URLError(.badServerResponse)))
        }
        let watchdog = Task {
            try await Task.sleep(for: .seconds(seconds))
            task.cancel()
            reply.give(.failure(URLError(.timedOut)))
        }
        defer { watchdog.cancel() }
        return try await withTaskCancellationHandler {
            task.resume()
            return try await reply.value
        } onCancel: {
            task.cancel()
        }
    }
}

extension URLSessionConfiguration {
    /// A copy that caches nothing: responses are valid only for the moment. On Linux, a request that is cancelled as it
    /// begins ends the process if there is a cache.
    var uncached: URLSessionConfiguration {
        guard let copy = copy() as? URLSessionConfiguration else { return self }
        copy.urlCache = nil
        copy.requestCachePolicy = .reloadIgnoringLocalCacheData
        return copy
    }
}
