/// One error, and its place.
public struct ProblemDetail: Sendable, Hashable {
    /// RFC 6901 pointer into the request body. A long one is cut and ends with "…" (``ErrorBounds``).
    @Exact public var pointer: String
    /// The broken rule, by its name in the seeds where it has one.
    @Exact public var rule: String
    /// The error, and how to fix it.
    public var detail: String

    public init(pointer: String, rule: String, detail: String) {
        self.pointer = ErrorBounds.cut(pointer, to: ErrorBounds.pointer)
        self.rule = rule
        self.detail = ErrorBounds.cut(detail, to: ErrorBounds.detail)
    }
}
