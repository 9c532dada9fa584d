/// How far a listener to a user's events has come, opaque to clients: the place in the lane's changes, and the feed's
/// position that was last hinted at.
package struct EventCursor: Sendable, Hashable {
    /// The feed's epoch: a purge or a restore changes it.
    package var epoch: Int64
    /// Changes of the feed up to here need no hint.
    package var feed: Int64
    /// What was seen of the lane.
    package var place: LanePlace

    /// Creates a cursor.
    package init(epoch: Int64, feed: Int64, place: LanePlace) {
        self.epoch = epoch
        self.feed = feed
        self.place = place
    }

    /// Reads a cursor; nil for what none of ours is.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= 200, parts.count == 4, parts[0] == "e1", let epoch = Int64(parts[1], radix: 36),
            let feed = Int64(parts[2], radix: 36), feed >= 0, let place = LanePlace(parts[3])
        else { return nil }
        self.init(epoch: epoch, feed: feed, place: place)
    }

    /// The wire form.
    package var text: String {
        "e1-\(String(epoch, radix: 36))-\(String(feed, radix: 36))-\(place.text)"
    }
}
