package import Logging

/// The request that a task works for. All log lines of the task carry its ids, also those of code that knows no
/// request: a line about a refused SQL statement is found by the id that the client was given.
package struct LogContext: Sendable {
    /// The current task's request; nil for work that belongs to none.
    @TaskLocal package static var current: LogContext?

    private let requestID: String
    private let traceID: String?

    /// - Parameters:
    ///   - requestID: as in `X-Request-ID`.
    ///   - traceID: 32 hexadecimal digits; nil for a request that is not traced.
    package init(requestID: String, traceID: String?) {
        self.requestID = requestID
        self.traceID = traceID
    }

    /// Adds the ids to a line's own metadata.
    package static let provider = Logger.MetadataProvider {
        guard let current else { return [:] }
        var metadata: Logger.Metadata = [LogKeys.requestID: .string(current.requestID)]
        metadata[LogKeys.traceID] = current.traceID.map { .string($0) }
        return metadata
    }
}
