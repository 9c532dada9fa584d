import Foundation

/// The watches on each organization's feed in this process. However many there are, one look serves them all.
struct FeedWatches {
    private struct Feed {
        var watches: [ObjectIdentifier: (interest: FeedInterest, watch: any ChangeObserver)] = [:]
        /// The feed's end at the last poll.
        var known: Int64
        var isBeingRead = false
        /// Whether there is something new since the current look began.
        var isDue = false
    }

    private var feeds: [UUID: Feed] = [:]
    private var names: [WakeName: UUID] = [:]

    var organizations: [UUID] { Array(feeds.keys) }

    /// - Parameter position: up to where the watch has seen the feed.
    mutating func add(_ watch: any ChangeObserver, _ interest: FeedInterest, after position: Int64) {
        feeds[interest.organization, default: Feed(known: position)].watches[ObjectIdentifier(watch)] = (
            interest, watch
        )
        names[WakeName(feedOf: interest.organization)] = interest.organization
    }

    mutating func remove(_ watch: any ChangeObserver, _ interest: FeedInterest) {
        feeds[interest.organization]?.watches[ObjectIdentifier(watch)] = nil
        guard feeds[interest.organization]?.watches.isEmpty == true else { return }
        feeds[interest.organization] = nil
        names[WakeName(feedOf: interest.organization)] = nil
    }

    /// The watched organization that another replica's hint names.
    func organization(_ name: WakeName) -> UUID? { names[name] }

    /// Records that a feed was changed.
    ///
    /// - Returns: whether the caller has to start a reader for it.
    mutating func changed(_ organization: UUID) -> Bool {
        guard let feed = feeds[organization] else { return false }
        feeds[organization]?.isDue = true
        guard !feed.isBeingRead else { return false }
        feeds[organization]?.isBeingRead = true
        return true
    }

    /// Records the end of a feed.
    ///
    /// - Returns: whether the caller has to start a reader for it.
    mutating func record(_ end: Int64, of organization: UUID) -> Bool {
        feeds[organization]?.known == end ? false : changed(organization)
    }

    /// Begins a look: where the last one ended, and how many watch. Nil when nothing is due; then the reader has to
    /// stop reading this feed.
    mutating func next(_ organization: UUID) -> (after: Int64, watches: Int)? {
        guard let feed = feeds[organization] else { return nil }
        guard feed.isDue else {
            feeds[organization]?.isBeingRead = false
            return nil
        }
        feeds[organization]?.isDue = false
        return (feed.known, feed.watches.count)
    }

    /// Records how far a poll has come, and answers the watches.
    mutating func looked(
        upTo end: Int64,
        at organization: UUID
    ) -> [ObjectIdentifier: (interest: FeedInterest, watch: any ChangeObserver)] {
        feeds[organization]?.known = end
        return feeds[organization]?.watches ?? [:]
    }
}
