/// How far a reader of a user's id mappings has come, opaque to clients.
package struct MappingCursor: Sendable, Hashable {
    /// The feed's epoch: a purge or a restore changes it.
    package var epoch: Int64
    /// Stands for the statuses that were asked for; 0 for all.
    package var filter: UInt64
    /// What was seen of the lane.
    package var place: LanePlace

    /// Creates a cursor.
    package init(epoch: Int64, filter: UInt64, place: LanePlace) {
        self.epoch = epoch
        self.filter = filter
        self.place = place
    }

    /// Reads a cursor; nil for what none of ours is.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= 200, parts.count == 4, parts[0] == "i1", let epoch = Int64(parts[1], radix: 36),
            let filter = UInt64(parts[2], radix: 36), let place = LanePlace(parts[3])
        else { return nil }
        self.init(epoch: epoch, filter: filter, place: place)
    }

    /// The wire form.
    package var text: String {
        "i1-\(String(epoch, radix: 36))-\(String(filter, radix: 36))-\(place.text)"
    }
}
