/// The metadata keys of log lines, in one place, so that a search for one finds every line that carries it.
///
/// The message is constant text; what varies stands beside it under one of these keys.
public enum LogKeys {
    /// The request's id, as in `X-Request-ID`.
    public static let requestID = "request_id"
    /// The W3C trace id: 32 hexadecimal digits.
    public static let traceID = "trace_id"
    /// The organization's UUID.
    public static let organization = "organization"
    /// The user's UUID.
    public static let user = "user"
    /// The device's UUID.
    public static let device = "device"
    /// The mutation's UUID.
    public static let mutation = "mutation"
    /// An entity type's name.
    public static let entityType = "entity_type"
    /// The HTTP method.
    public static let method = "method"
    /// The route's template, `/v1/mutations/{id}`; never the path that was asked for.
    public static let route = "route"
    /// The HTTP status code.
    public static let status = "status"
    /// How long it took, in milliseconds.
    public static let durationMS = "duration_ms"
    /// How many of what the message speaks of.
    public static let count = "count"
    /// Which try this is; the first is 1.
    public static let attempt = "attempt"
    /// What went wrong, for the operator.
    public static let error = "error"
    /// The machine-readable code that the client was given.
    public static let code = "code"
    /// Postgres's five-character error code.
    public static let sqlState = "sqlstate"
    /// Why something was done or refused.
    public static let reason = "reason"
    /// A network address and port.
    public static let address = "address"
    /// A file's path.
    public static let path = "path"
    /// A setting's name.
    public static let setting = "setting"
    /// The version of a program or schema.
    public static let version = "version"
}
