public import FoundationEssentials
import JSONText

/// A reader's position in a user's lane, opaque to clients.
public struct LaneCursor<Reading: LaneReading>: Sendable, Hashable {
    /// The feed's epoch, which a purge or a restore changes.
    public var epoch: Int64
    /// Further data of the cursor, as a number of at least 0: a position of the feed, or a filter.
    private var memo: Reading.Memo
    public var place: LanePlace

    /// Reads a cursor; nil if the text is not valid.
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

/// The cursor of a client that listens to a user's events.
public typealias EventCursor = LaneCursor<EventReading>

extension EventCursor {
    public init(epoch: Int64, feed: Int64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, feed, place)
    }

    /// The position of the feed up to which the client needs no hints of changes.
    public var feed: Int64 {
        get { memo }
        set { memo = newValue }
    }
}

/// The cursor of a client that reads a user's id mappings.
public typealias MappingCursor = LaneCursor<MappingReading>

extension MappingCursor {
    public init(epoch: Int64, filter: UInt64, place: LanePlace) {
        (self.epoch, memo, self.place) = (epoch, filter, place)
    }

    /// A value that represents the requested statuses; 0 for all statuses.
    public var filter: UInt64 { memo }
}

/// A reader's position among the changes of a lane.
///
/// All changes that were made under one lock of the lane have the same change position. Therefore a place also contains
/// the last item that the reader has received at its change position.
public struct LanePlace: Sendable, Hashable {
    /// The last item that was received at a change position.
    ///
    /// Among the items at a change position, mutations come first, in lane order. Then come mappings, ordered by client
    /// id and type.
    public enum Last: Sendable, Hashable {
        /// A mutation, by its position in the lane.
        case mutation(position: Int64)
        case mapping(clientID: UUID, entityType: String)
    }

    /// The change position below which the reader has received all changes.
    public var change: Int64
    /// The last item that was received at ``change`` itself; nil if the reader has received all items of this change.
    public var last: Last?

    public init(change: Int64, last: Last? = nil) {
        self.change = change
        self.last = last
    }

    /// Reads a place; nil if the text is not valid.
    init?(_ text: Substring) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard let change = Int64(parts[0], radix: 36), change >= 0 else { return nil }
        self.init(change: change)
        if parts.count == 1 { return }
        switch (parts[1], parts.count) {
        case ("m", 3):
            guard let position = Int64(parts[2], radix: 36), position >= 0 else { return nil }
            last = .mutation(position: position)
        case ("i", 4):
            guard let clientID = UUID(compact: parts[2]), EntityType.isValidName(String(parts[3])) else { return nil }
            last = .mapping(clientID: clientID, entityType: String(parts[3]))
        default: return nil
        }
    }

    /// The form of the place within a cursor. The place is always the last part of a cursor.
    var text: String {
        let change = String(change, radix: 36)
        return switch last {
        case nil: change
        case .mutation(let position): "\(change)-m-\(String(position, radix: 36))"
        case .mapping(let clientID, let type): "\(change)-i-\(clientID.compact)-\(type)"
        }
    }
}

extension UUID {
    /// The UUID in lower case, without hyphens.
    fileprivate var compact: String { lowercased.replacing("-", with: "") }

    fileprivate init?(compact text: Substring) {
        guard text.utf8.count == 32 else { return nil }
        var hyphenated = ""
        for (index, character) in text.enumerated() {
            if [8, 12, 16, 20].contains(index) { hyphenated.append("-") }
            hyphenated.append(character)
        }
        guard let id = UUID(text: hyphenated.utf8) else { return nil }
        self = id
    }
}

/// The epoch in cursors of a user's lane, which is the feed's epoch mixed with the user's id.
///
/// A user who was joined into another user has the lane of the other user. The user's old cursors must become invalid,
/// because their positions would refer to other changes in this lane. They become invalid because their epoch was mixed
/// with another user's id.
public enum LaneEpoch {
    /// Mixes a user into an epoch. A second call gives the original epoch.
    public static func mixed(_ epoch: Int64, _ user: UUID) -> Int64 {
        let bytes = withUnsafeBytes(of: user.uuid) { Array($0) }
        let halves = [bytes[..<8], bytes[8...]].map { $0.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        // the sign bit is omitted, because numbers in cursors have no sign
        return epoch ^ Int64((halves[0] ^ halves[1]) & UInt64(Int64.max))
    }
}

/// The part of a cursor that does not describe the reader's place in the lane.
public protocol LaneReading {
    associatedtype Memo: FixedWidthInteger & Sendable

    /// The prefix of the text of these cursors.
    static var mark: String { get }
}

public enum EventReading: LaneReading {
    public typealias Memo = Int64
    public static let mark = "e1"
}

public enum MappingReading: LaneReading {
    public typealias Memo = UInt64
    public static let mark = "i1"
}
