package import Logging

/// The request that a task works for. Whatever is logged meanwhile carries its ids, also by those who know of no
/// request: a line about a refused SQL statement is found by the id that the client was given.
package struct LogContext: Sendable {
    /// What the current task works for; nil for what belongs to no request.
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

    /// Puts the ids beside what a line says by itself.
    package static let provider = Logger.MetadataProvider {
        guard let current else { return [:] }
        var metadata: Logger.Metadata = [LogKeys.requestID: .string(current.requestID)]
        metadata[LogKeys.traceID] = current.traceID.map { .string($0) }
        return metadata
    }
}
