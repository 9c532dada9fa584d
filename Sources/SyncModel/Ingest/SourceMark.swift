/// How new a state of an entity is, in the words of who keeps it elsewhere.
public struct SourceMark: Sendable, Hashable {
    /// A number that grows with each change of the entity.
    public var version: Int64?
    /// When it was changed, by the clock of the place where it was.
    public var occurredAt: Timestamp?

    public init(version: Int64? = nil, occurredAt: Timestamp? = nil) {
        self.version = version
        self.occurredAt = occurredAt
    }

    /// Whether a state adds nothing to a known one. Versions decide where both have one: the same version is the same
    /// state. Two changes may fall into the same moment, so the same moment is not older. What cannot be compared is
    /// not older either.
    public func isKnown(by known: SourceMark?) -> Bool {
        guard let known else { return false }
        if let version, let other = known.version { return version <= other }
        if let occurredAt, let other = known.occurredAt { return occurredAt < other }
        return false
    }

    /// The newest of what two states say.
    public func merged(with other: SourceMark?) -> SourceMark {
        guard let other else { return self }
        return SourceMark(version: Self.max(version, other.version), occurredAt: Self.max(occurredAt, other.occurredAt))
    }

    private static func max<Value: Comparable>(_ left: Value?, _ right: Value?) -> Value? {
        guard let left, let right else { return left ?? right }
        return Swift.max(left, right)
    }
}
