/// The metadata keys of log lines, in one place.
///
/// A search for a key finds every line that carries it. The message is constant text; variable parts are metadata under
/// one of these keys.
package enum LogKeys {
    /// The request's id, as in `X-Request-ID`.
    package static let requestID = "request_id"
    /// The W3C trace id: 32 hexadecimal digits.
    package static let traceID = "trace_id"
    /// The organization's UUID.
    package static let organization = "organization"
    package static let method = "method"
    /// The route's template, `/v1/mutations/{id}`; never the requested path.
    package static let route = "route"
    package static let status = "status"
    package static let durationMS = "duration_ms"
    /// The failure, for the operator.
    package static let error = "error"
    /// The machine-readable code that the client was given.
    package static let code = "code"
    /// Why an action was taken or refused.
    package static let reason = "reason"
    /// A network address and port.
    package static let address = "address"
    package static let setting = "setting"
    /// The version of a program or schema.
    package static let version = "version"
}
