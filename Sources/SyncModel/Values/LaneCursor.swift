/// What a reader of a lane's changes keeps in its cursor besides its place.
package protocol LaneReading {
    associatedtype Memo: FixedWidthInteger & Sendable

    /// What the text of its cursors begins with.
    static var mark: String { get }
}

/// How far a reader of a user's lane has come, opaque to clients.
package struct LaneCursor<Reading: LaneReading>: Sendable, Hashable {
    /// The feed's epoch: a purge or a restore changes it.
    package var epoch: Int64
    /// Not negative.
    private var memo: Reading.Memo
    /// What was seen of the lane.
    package var place: LanePlace

    /// Reads a cursor; nil for what none of ours is.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard text.utf8.count <= 200, parts.count == 4, parts[0] == Reading.mark,
            let epoch = Int64(parts[1], radix: 36), let memo = Reading.Memo(parts[2], radix: 36), memo >= 0,
            let place = LanePlace(parts[3])
        else { return nil }
        (self.epoch, self.memo, self.place) = (epoch, memo, place)
    }

    package var text: String {
        "\(Reading.mark)-\(String(epoch, radix: 36))-\(String(memo, radix: 36))-\(place.text)"
    }
}

package enum EventReading: LaneReading {
    package typealias Memo = Int64
    package static let mark = "e1"
}

/// The cursor of a listener to a user's events.
package typealias EventCursor = LaneCursor<EventReading>

extension EventCursor {
    package init(epoch: Int64, feed: Int64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, feed, place)
    }

    /// Changes of the feed up to here need no hint.
    package var feed: Int64 {
        get { memo }
        set { memo = newValue }
    }
}

package enum MappingReading: LaneReading {
    package typealias Memo = UInt64
    package static let mark = "i1"
}

/// The cursor of a reader of a user's id mappings.
package typealias MappingCursor = LaneCursor<MappingReading>

extension MappingCursor {
    package init(epoch: Int64, filter: UInt64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, filter, place)
    }

    /// Stands for the statuses that were asked for; 0 for all.
    package var filter: UInt64 { memo }
}
