package import Foundation

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

extension URLSession {
    /// Sends a request.
    ///
    /// The method returns immediately when the task is cancelled or the time is over. It does not wait for the session,
    /// because on Linux a cancelled transfer may never report its end. The request's `timeoutInterval` does not
    /// suffice, because it restarts with each byte.
    ///
    /// - Parameter seconds: the time within which the response must be complete.
    /// - Throws: `CancellationError`, `URLError`.
    package func answer(to request: URLRequest, within seconds: TimeInterval) async throws -> (
        body: Data, response: URLResponse
    ) {
        let reply = Promise<(body: Data, response: URLResponse)>()
        let task = dataTask(with: request) { data, response, error in
            let answer = data.flatMap { data in response.map { (body: data, response: $0) } }
            reply.set(answer.map(Result.success) ?? .failure(error ?? URLError(.badServerResponse)))
        }
        let watchdog = Task {
            try await Task.sleep(for: .seconds(seconds))
            task.cancel()
            reply.set(.failure(URLError(.timedOut)))
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
    /// A copy of the configuration without a cache, because responses must not be reused. In addition, a cache can
    /// crash the process on Linux, if a request is cancelled while it begins.
    var uncached: URLSessionConfiguration {
        guard let copy = copy() as? URLSessionConfiguration else { return self }
        copy.urlCache = nil
        copy.requestCachePolicy = .reloadIgnoringLocalCacheData
        return copy
    }
}
