import JSONText

/// A stored problem object, as far as operators' lists show it.
///
/// It lacks what its user and the upstream wrote.
public struct StoredProblem: Sendable, Hashable {
    /// A ``ProblemCode``, or one of a version with other codes; nil if missing.
    @Exact public private(set) var code: String?
    /// The problem as a sentence; nil if missing.
    public let detail: String?

    /// - Parameter json: a problem object; any other JSON has no contents.
    public init(_ json: [UInt8]) {
        let root = Self.root(json)
        code = root?["code"]?.string
        detail = root.flatMap { RedactedProblem(of: $0).detail }
    }

    /// A stored problem without what its user and the upstream wrote.
    ///
    /// Nil where it cannot be read.
    static func redacted(_ json: [UInt8]) -> [UInt8]? {
        root(json).flatMap { RedactedProblem(of: $0).json }
    }

    /// The entity of a conflict nests deeper in a problem than in a request.
    private static func root(_ json: [UInt8]) -> JSONValue? {
        (try? JSONTree(parsing: json, limits: .widest))?.root
    }
}
