public import FoundationEssentials

/// A request that the gateway sent to the organization's API.
///
/// The record has the data with which the gateway recognizes the request's echo.
public struct SentRecord: Sendable, Hashable {
    /// The maximum time that a request is in flight, in seconds. This time is longer than any time-out.
    public static let flightSeconds: Double = 120
    /// The time for which the content or the version identifies an echo, in seconds.
    ///
    /// The idempotency key identifies an echo as long as the record is kept.
    public static let valueSeconds: Double = 86_400

    /// The gateway's `Idempotency-Key`.
    public let key: UUID
    @Exact public private(set) var entityType: String
    /// The text of the entity's permanent id; nil for a create until the id is known.
    @Exact public private(set) var entityID: String?
    /// When the request was last sent.
    public let sentAt: Timestamp
    /// When the outcome of the request became known; nil if the outcome is still unknown.
    ///
    /// The outcome is unknown while the request is in flight. The outcome is also unknown if the request may have taken
    /// effect and is sent again.
    public let answeredAt: Timestamp?
    /// The hash of the entity's content in the feed after the outcome.
    ///
    /// Nil if the outcome was not written to the feed.
    public let content: ContentHash?
    /// The entity's version in the API's answer.
    public let version: Int64?
    /// Whether the request's echo was already recognized by its content or version.
    ///
    /// An echo is recognized in this way only once for each request.
    public var isUsed: Bool

    public init(
        key: UUID,
        entityType: String,
        entityID: String?,
        sentAt: Timestamp,
        answeredAt: Timestamp?,
        content: ContentHash? = nil,
        version: Int64? = nil,
        isUsed: Bool = false
    ) {
        self.key = key
        self.entityType = entityType
        self.entityID = entityID
        self.sentAt = sentAt
        self.answeredAt = answeredAt
        self.content = content
        self.version = version
        self.isUsed = isUsed
    }

    /// Whether the outcome of the request may still arrive.
    public func isInFlight(at now: Timestamp) -> Bool {
        answeredAt == nil && sentAt.adding(seconds: Self.flightSeconds) > now
    }

    /// Whether the request was about this entity, or may have created this entity.
    ///
    /// A create of the same type may have created this entity if the id of the created entity is not known.
    func mayBeAbout(_ entity: EntityKey) -> Bool {
        entityType == entity.type && (entityID.map { $0 == entity.id } ?? true)
    }

    /// Whether the request's echo may still be recognized by its content or version.
    func identifiesByValue(at now: Timestamp) -> Bool {
        guard !isUsed, let answeredAt else { return false }
        return answeredAt.adding(seconds: Self.valueSeconds) > now
    }

    /// The version in an API's ETag; nil if the ETag contains other characters than digits. The prefix `W/` and the
    /// quotes are ignored.
    public static func version(of etag: String?) -> Int64? {
        guard var text = etag?[...] else { return nil }
        if text.hasPrefix("W/") { text = text.dropFirst(2) }
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 2 { text = text.dropFirst().dropLast() }
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }
}

/// A request that the gateway sends instead of the mutation's own request, for example under `client_wins`.
///
/// The request has its own method, and may have its own endpoint and payload. It has no `If-Match`.
public struct SentRequest: Sendable, Hashable {
    /// `PATCH`, `PUT` or `DELETE`.
    @Exact public var method: String
    /// The endpoint; nil for the mutation's endpoint.
    @Exact public var endpoint: String?
    /// The payload as JSON; nil for the mutation's payload.
    public var payload: [UInt8]?

    public init(method: String, endpoint: String? = nil, payload: [UInt8]? = nil) {
        self.method = method
        self.endpoint = endpoint
        self.payload = payload
    }
}

/// A version and a time that show how recent a state of an entity is. Both values come from the system that owns the
/// entity.
public struct SourceMark: Sendable, Hashable {
    /// A number that grows with each change of the entity.
    public var version: Int64?
    /// When the entity was changed, according to the clock of the system that changed it.
    public var occurredAt: Timestamp?
    /// The part of the change's time that is less than a microsecond, in units of 10⁻²⁴ seconds. `occurredAt` omits
    /// this part.
    ///
    /// The value is from 0 to 10¹⁸ - 1.
    public var fraction: Int64

    public init(version: Int64? = nil, occurredAt: Timestamp? = nil, fraction: Int64 = 0) {
        self.version = version
        self.occurredAt = occurredAt
        self.fraction = occurredAt == nil ? 0 : fraction
    }

    /// The number of digits of a second's fraction that are compared. Later digits are ignored.
    public static let fractionDigits = 24

    /// Returns the digits 7 to 24 of the second's fraction in an RFC 3339 date-time.
    ///
    /// ``Timestamp`` omits these digits.
    public static func fraction(ofRFC3339 text: some StringProtocol) -> Int64 {
        guard let point = text.utf8.firstIndex(of: UInt8(ascii: ".")) else { return 0 }
        let digits = text.utf8[text.utf8.index(after: point)...].prefix { (48...57).contains($0) }
        let rest = digits.dropFirst(6).prefix(fractionDigits - 6)
        var value: Int64 = 0
        for digit in rest { value = value * 10 + Int64(digit - 48) }
        for _ in rest.count..<(fractionDigits - 6) { value *= 10 }
        return value
    }

    /// Whether a known state is at least as recent as this state.
    ///
    /// If both states have a version, the versions decide, and equal versions mean the same state. Otherwise the times
    /// decide. The result is false for equal times, because two changes may have the same time. The result is also
    /// false for states that cannot be compared.
    public func isKnown(by known: SourceMark?) -> Bool {
        guard let known else { return false }
        if let version, let other = known.version { return version <= other }
        if let occurredAt, let other = known.occurredAt {
            return occurredAt == other ? fraction < known.fraction : occurredAt < other
        }
        return false
    }

    /// The mark without its version.
    var withoutVersion: SourceMark { SourceMark(occurredAt: occurredAt, fraction: fraction) }

    /// A mark with the newer version and the newer time of the two states.
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
    /// The part of an event id that distinguishes different times within the same microsecond.
    ///
    /// The suffix is part of ids that are computed from the content. Earlier versions of Sluice added no suffix. For
    /// times in whole microseconds, the suffix is empty. Therefore the ids of events with such times have not changed.
    package var fractionSuffix: String { fraction == 0 ? "" : ".\(fraction)" }
}

/// Whether the gateway expects an echo of the request, if the API reports edits as events.
extension Outcome {
    public enum Echo: Sendable, Hashable {
        /// The API reports the request, because it took effect or may have taken effect.
        case expected
        /// The outcome is not known yet, because the request may have taken effect and is sent again.
        case open
        /// The request took no effect.
        case none
    }

    public var echo: Echo {
        if status == .succeeded { return .expected }
        if isOutcomeUnknown { return status == .pending ? .open : .expected }
        return .none
    }

    /// Whether the outcome contains the entity's state for the feed.
    public var describesEntity: Bool {
        if case .none = entity { return false }
        return true
    }
}
