public import Foundation

/// A request that the gateway sent to the organization's API.
///
/// It has the data by which its echo is recognized.
public struct SentRecord: Sendable, Hashable {
    /// The longest time of a request in flight, in seconds: longer than any time-out.
    public static let flightSeconds: Double = 120
    /// How long a value or version identifies an echo, in seconds.
    ///
    /// A key identifies it as long as the record is kept.
    public static let valueSeconds: Double = 86_400

    /// The gateway's `Idempotency-Key`.
    public let key: UUID
    @Exact public private(set) var entityType: String
    /// The text of the entity's permanent id; nil until a create has one.
    @Exact public private(set) var entityID: String?
    /// When it was sent, the last time.
    public let sentAt: Timestamp
    /// When its outcome was known.
    ///
    /// Nil while it is in flight, or may have taken effect and is sent again.
    public let answeredAt: Timestamp?
    /// The feed's content of the entity afterwards.
    ///
    /// Nil where the outcome was not written to the feed.
    public let content: ContentHash?
    /// The version that the API's answer gave the entity.
    public let version: Int64?
    /// Whether an event was judged to be its echo by value or version.
    ///
    /// An echo is recognized in this way only once.
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

    /// Whether its outcome may come any moment.
    public func isInFlight(at now: Timestamp) -> Bool {
        answeredAt == nil && sentAt.adding(seconds: Self.flightSeconds) > now
    }

    /// Whether it was about this entity, or may have created it.
    ///
    /// The latter is a create of its type whose id is not known.
    func mayBeAbout(_ entity: EntityKey) -> Bool {
        entityType == entity.type && (entityID.map { $0 == entity.id } ?? true)
    }

    /// Whether its echo may still be recognized by value or version.
    func identifiesByValue(at now: Timestamp) -> Bool {
        guard !isUsed, let answeredAt else { return false }
        return answeredAt.adding(seconds: Self.valueSeconds) > now
    }

    /// The version in an API's ETag, where that is a number in quotes, weak or strong.
    public static func version(of etag: String?) -> Int64? {
        guard var text = etag?[...] else { return nil }
        if text.hasPrefix("W/") { text = text.dropFirst(2) }
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 2 { text = text.dropFirst().dropLast() }
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }
}
