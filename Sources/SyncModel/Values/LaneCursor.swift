/// A reader's position in a user's lane, opaque to clients.
public struct LaneCursor<Reading: LaneReading>: Sendable, Hashable {
    /// The feed's epoch: a purge or a restore changes it.
    public var epoch: Int64
    /// Not negative.
    private var memo: Reading.Memo
    public var place: LanePlace

    /// Nil for an invalid cursor.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= 200, parts.count == 4, parts[0] == Reading.mark,
            let epoch = Int64(parts[1], radix: 36), let memo = Reading.Memo(parts[2], radix: 36), memo >= 0,
            let place = LanePlace(parts[3])
        else { return nil }
        (self.epoch, self.memo, self.place) = (epoch, memo, place)
    }

    public var text: String {
        "\(Reading.mark)-\(String(epoch, radix: 36))-\(String(memo, radix: 36))-\(place.text)"
    }
}

/// The cursor of a listener to a user's events.
public typealias EventCursor = LaneCursor<EventReading>

extension EventCursor {
    public init(epoch: Int64, feed: Int64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, feed, place)
    }

    /// The listener needs no hint of feed changes up to here.
    public var feed: Int64 {
        get { memo }
        set { memo = newValue }
    }
}

/// The cursor of a reader of a user's id mappings.
public typealias MappingCursor = LaneCursor<MappingReading>

extension MappingCursor {
    public init(epoch: Int64, filter: UInt64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, filter, place)
    }

    /// Represents the requested statuses; 0 for all.
    public var filter: UInt64 { memo }
}
