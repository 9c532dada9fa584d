/// One thing that is wrong, and where.
public struct ProblemDetail: Sendable, Hashable {
    /// RFC 6901 pointer into the request body.
    public var pointer: String
    /// The rule that was broken, by its name in the seeds where they have one.
    public var rule: String
    /// What was wrong and what to do.
    public var detail: String

    /// Creates the value.
    public init(pointer: String, rule: String, detail: String) {
        self.pointer = pointer
        self.rule = rule
        self.detail = detail
    }
}
