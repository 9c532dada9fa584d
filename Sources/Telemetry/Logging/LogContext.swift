package import Logging

/// The request for which a task works.
///
/// All log lines of the task contain the request's ids, even if the code that logs a line has no access to the request.
/// For example, an operator can find a line about a refused SQL statement by the id that the client received.
package struct LogContext: Sendable {
    /// The current task's request; nil for work that does not belong to a request.
    @TaskLocal package static var current: LogContext?

    private let requestID: String
    private let traceID: String?

    /// - Parameters:
    ///   - requestID: the request's id, as in `X-Request-ID`.
    ///   - traceID: the trace id, 32 hexadecimal digits; nil for a request that is not traced.
    package init(requestID: String, traceID: String?) {
        self.requestID = requestID
        self.traceID = traceID
    }

    /// Adds the ids to the metadata of a line.
    package static let provider = Logger.MetadataProvider {
        guard let current else { return [:] }
        var metadata: Logger.Metadata = [LogKeys.requestID: .string(current.requestID)]
        metadata[LogKeys.traceID] = current.traceID.map { .string($0) }
        return metadata
    }
}

/// The metadata keys of all log lines.
///
/// The message of a line is constant text. Variable parts are metadata under one of these keys, so that operators can
/// search for them.
package enum LogKeys {
    /// The request's id, as in `X-Request-ID`.
    package static let requestID = "request_id"
    /// The W3C trace id: 32 hexadecimal digits.
    package static let traceID = "trace_id"
    /// The organization's UUID.
    package static let organization = "organization"
    package static let method = "method"
    /// The route's template, such as `/v1/mutations/{id}`, never the requested path.
    package static let route = "route"
    package static let status = "status"
    package static let durationMS = "duration_ms"
    /// The failure, for the operator.
    package static let error = "error"
    /// The machine-readable code that the client received.
    package static let code = "code"
    /// The reason why an action was performed or refused.
    package static let reason = "reason"
    /// A network address and port.
    package static let address = "address"
    package static let setting = "setting"
    /// The version of a program or schema.
    package static let version = "version"
}

extension LogEvent {
    /// All metadata of a line, sorted by key.
    ///
    /// Values of the call take precedence over values of the logger. Values of the logger take precedence over values
    /// of the provider. The line's error is under ``LogKeys/error``.
    func metadata(
        over loggers: Logger.Metadata,
        provider: Logger.MetadataProvider?
    ) -> [(key: String, value: Logger.MetadataValue)] {
        var merged = provider?.get() ?? [:]
        merged.merge(loggers) { $1 }
        if let error { merged[LogKeys.error] = .string("\(error)") }
        if let metadata { merged.merge(metadata) { $1 } }
        return merged.sorted { $0.key < $1.key }
    }
}
