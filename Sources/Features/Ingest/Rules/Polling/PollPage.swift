package import SyncModel

/// A page of an upstream's list.
package struct PollPage: Sendable {
    /// What follows it.
    enum End: Sendable, Hashable {
        case last
        case next(PollState.Place)
        /// Nothing can follow it, for this reason.
        case broken(String)
    }

    /// To be submitted, in this order; nil for none.
    package let events: MappedEvents?
    let items: Int
    let request: UpstreamFetch
    let response: FetchedResponse
    var end: End
    /// The greatest of its items' times of change.
    var greatest: SinceValue?
    /// A digest of the items' text; nil without any.
    var content: String?

    init(events: MappedEvents?, items: Int, request: UpstreamFetch, response: FetchedResponse, end: End) {
        self.events = events
        self.items = items
        self.request = request
        // the body has been read and need not be kept
        var response = response
        response.body = []
        self.response = response
        self.end = end
    }
}

/// The results of a page's events.
package struct PollTally: Sendable, Hashable {
    package private(set) var refused = 0
    /// The place of the first refused event, and the reason.
    @Exact package private(set) var firstRefusal: String?
    /// Whether there was something new.
    package private(set) var hasEvents = false
    /// The longest refusal that is shown, in characters.
    private static let shownCharacters = 500

    package init() {}

    /// Adds the results of later events.
    package mutating func add(_ other: PollTally) {
        refused += other.refused
        firstRefusal = firstRefusal ?? other.firstRefusal
        hasEvents = hasEvents || other.hasEvents
    }

    /// Notes that there was something new.
    package mutating func recordEvents() { hasEvents = true }

    /// Counts the result of an event.
    ///
    /// - Parameter problem: of one that was refused, with pointers into the page.
    package mutating func record(_ result: IngestResult, _ problem: Problem?) {
        switch result {
        case .applied, .stale, .echo, .parked: hasEvents = true
        case .duplicate: break
        case .refused:
            refused += 1
            guard firstRefusal == nil else { return }
            let place = problem?.errors.first.map { "(at '\($0.pointer)')" } ?? "(an item)"
            let reason = problem?.errors.first?.detail ?? problem?.detail ?? "it is not valid"
            // names of members are the upstream's
            let shown = "\(place): \(reason)".prefix(Self.shownCharacters).map { character in
                character.unicodeScalars.contains { $0.properties.generalCategory == .control } ? " " : character
            }
            firstRefusal = String(shown)
        }
    }
}

/// Why a poller has come to no end.
package struct PollFailure: Sendable, Hashable {
    /// For operators.
    package let reason: String
    /// `Retry-After`.
    package internal(set) var retryAt: Timestamp?
    /// The new state; nil: it stays.
    package internal(set) var state: PollState?

    package init(_ reason: String) {
        self.init(reason, nil)
    }

    init(_ reason: String, _ state: PollState?) {
        self.reason = reason
        self.state = state
    }
}
