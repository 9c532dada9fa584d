/// One error, and its place.
public struct ProblemDetail: Sendable, Hashable {
    /// RFC 6901 pointer into the request body.
    @Exact public var pointer: String
    /// The broken rule, by its name in the seeds where it has one.
    @Exact public var rule: String
    /// The error, and how to fix it.
    public var detail: String

    public init(pointer: String, rule: String, detail: String) {
        self.pointer = pointer
        self.rule = rule
        self.detail = detail
    }
}
