/// How recent a state of an entity is, in the terms of the system that keeps it.
public struct SourceMark: Sendable, Hashable {
    /// A number that grows with each change of the entity.
    public var version: Int64?
    /// When it was changed, by the clock of the place where it was.
    public var occurredAt: Timestamp?
    /// The part of the moment below its microsecond, in units of 10⁻²⁴ seconds.
    ///
    /// 0 up to 10¹⁸ - 1.
    public var fraction: Int64

    public init(version: Int64? = nil, occurredAt: Timestamp? = nil, fraction: Int64 = 0) {
        self.version = version
        self.occurredAt = occurredAt
        self.fraction = occurredAt == nil ? 0 : fraction
    }

    /// Digits of a second's fraction that are compared. Later digits are ignored.
    public static let fractionDigits = 24

    /// Returns the digits 7 to 24 of the second's fraction in an RFC 3339 date-time.
    ///
    /// ``Timestamp`` cuts them off.
    public static func fraction(ofRFC3339 text: some StringProtocol) -> Int64 {
        guard let point = text.utf8.firstIndex(of: UInt8(ascii: ".")) else { return 0 }
        let digits = text.utf8[text.utf8.index(after: point)...].prefix { (48...57).contains($0) }
        let rest = digits.dropFirst(6).prefix(fractionDigits - 6)
        var value: Int64 = 0
        for digit in rest { value = value * 10 + Int64(digit - 48) }
        for _ in rest.count..<(fractionDigits - 6) { value *= 10 }
        return value
    }

    /// Whether a state adds nothing to a known one.
    ///
    /// Versions decide where both have one: the same version is the same state. Two changes may fall into the same
    /// moment, so the same moment is not older. States that cannot be compared are not older either.
    public func isKnown(by known: SourceMark?) -> Bool {
        guard let known else { return false }
        if let version, let other = known.version { return version <= other }
        if let occurredAt, let other = known.occurredAt {
            return occurredAt == other ? fraction < known.fraction : occurredAt < other
        }
        return false
    }

    /// The same without the version.
    var withoutVersion: SourceMark { SourceMark(occurredAt: occurredAt, fraction: fraction) }

    /// The newest values of both states.
    public func merged(with other: SourceMark?) -> SourceMark {
        guard let other else { return self }
        let isOlder =
            occurredAt.map { own in
                other.occurredAt.map { own == $0 ? fraction < other.fraction : own < $0 } ?? false
            } ?? true
        let newer = isOlder ? other : self
        return SourceMark(
            version: Self.max(version, other.version),
            occurredAt: newer.occurredAt,
            fraction: newer.fraction
        )
    }

    private static func max<Value: Comparable>(_ left: Value?, _ right: Value?) -> Value? {
        guard let left, let right else { return left ?? right }
        return Swift.max(left, right)
    }
}

extension SourceMark {
    /// The part of an event id that distinguishes two moments of one microsecond.
    ///
    /// For ids that are made of the content; empty for moments without further digits, whose ids stay as they were.
    package var fractionSuffix: String { fraction == 0 ? "" : ".\(fraction)" }
}
