/// The outcome of an event from elsewhere.
public enum IngestResult: String, Sendable, Hashable, CaseIterable {
    /// It is in the feed, or the feed had it already.
    case applied
    /// A newer state of the entity is known: nothing was changed.
    case stale
    /// It reports a request that the gateway itself sent: nothing was changed.
    case echo
    /// It waits for the outcome of a request of the gateway's own about the entity.
    case parked
    /// An event of the same source with the same id was taken before.
    case duplicate
    /// It is invalid, or does not fit the known state; it may be sent again.
    case refused

    /// Whether the event's id is known from then on.
    public var isRemembered: Bool {
        switch self {
        case .applied, .stale, .echo, .parked: true
        case .duplicate, .refused: false
        }
    }
}
