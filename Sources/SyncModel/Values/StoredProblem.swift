import JSONText

/// What a stored problem object says, as far as lists show it.
public struct StoredProblem: Sendable, Hashable {
    /// A ``ProblemCode``, or one of a version that knows others; nil where it has none.
    public let code: String?
    /// In words; nil where it has none.
    public let detail: String?

    /// - Parameter json: a problem object; anything else says nothing.
    public init(_ json: [UInt8]) {
        let root = try? JSONTree(parsing: json).root
        code = root?["code"]?.string
        detail = root?["detail"]?.string
    }
}
