import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The gateway's events (`docs/api.md`, events): hints that something has changed, and mutations with a new state.
///
/// A delegate receives the bytes, because `URLSession.bytes` is not available on Linux.
final class EventStream: NSObject, URLSessionDataDelegate, Sendable {
    private let parser = Locked(EventParser())
    private let continuation: AsyncStream<EventParser.Event>.Continuation

    private init(_ continuation: AsyncStream<EventParser.Event>.Continuation) { self.continuation = continuation }

    /// Returns the events of one connection. The stream ends when the connection ends.
    static func events(_ request: URLRequest, _ configuration: URLSessionConfiguration) -> AsyncStream<
        EventParser.Event
    > {
        AsyncStream(bufferingPolicy: .bufferingNewest(10_000)) { continuation in
            let session = URLSession(
                configuration: configuration,
                delegate: EventStream(continuation),
                delegateQueue: nil
            )
            session.dataTask(with: request).resume()
            continuation.onTermination = { _ in session.invalidateAndCancel() }
        }
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        let isStream = (response as? HTTPURLResponse)?.statusCode == 200
        completionHandler(isStream ? .allow : .cancel)
        if isStream { continuation.yield(EventParser.Event(name: "open")) }
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        for event in parser.withLock({ $0.take(data) }) { continuation.yield(event) }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        continuation.finish()
    }
}
