/// A position in an organization's feed, opaque to clients.
///
/// The cursor contains the feed's epoch, the position up to which the client has received all changes, the feed's end
/// at the beginning of a first pull, and the pull's filter. In an organization with channels, the cursor also contains
/// the position up to which changes of the user's grants are applied.
public struct FeedCursor: Sendable, Hashable {
    /// The feed's epoch, which a purge or a restore changes.
    public var epoch: Int64
    /// The position up to which the client has received all changes.
    public var position: Int64
    /// During a first pull, the feed's end when the pull began; otherwise equal to ``position``.
    public var head: Int64
    /// A hash of the requested entity types and channels; 0 if all of them are requested.
    public var filter: UInt64
    /// The number of the page that a device pulled; 0 if neither this page nor an earlier page assigned ids.
    public var page: Int64
    /// The position up to which changes of the user's grants are applied. This position is never less than
    /// ``position``.
    public var grants: Int64
    /// The change of grants that is being applied; nil if no change is being applied.
    public var application: Application?
    /// A hash of the user whose grants were applied; 0 if no grants were applied.
    ///
    /// If the hash differs from the hash of the present user, the client starts again. This happens after a user was
    /// joined into another user, because the other user has other grants.
    public var reader: UInt64

    /// A channel that the user lost or gained. The entities of this channel are being listed.
    public struct Application: Sendable, Hashable {
        /// The target position: the changes of grants up to this position are being applied.
        public var target: Int64
        public var isGain: Bool
        public var channel: ChannelID
        /// The position up to which the channel's entities are listed, in the order of their last changes.
        public var position: Int64

        public init(target: Int64, isGain: Bool, channel: ChannelID, position: Int64) {
            self.target = target
            self.isGain = isGain
            self.channel = channel
            self.position = position
        }
    }

    /// - Parameter grants: nil to use `position`.
    public init(
        epoch: Int64,
        position: Int64,
        head: Int64,
        filter: UInt64 = 0,
        page: Int64 = 0,
        grants: Int64? = nil,
        application: Application? = nil,
        reader: UInt64 = 0
    ) {
        self.epoch = epoch
        self.position = position
        self.head = head
        self.filter = filter
        self.page = page
        self.grants = grants ?? position
        self.application = application
        self.reader = reader
    }

    /// Reads a cursor; nil if the text is not a valid cursor.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count <= 200, let form = parts.first,
            form == "f1" ? (5...6).contains(parts.count) : form == "f2" && [8, 12].contains(parts.count),
            let epoch = Int64(parts[1], radix: 36), let position = Int64(parts[2], radix: 36), position >= 0,
            let head = Int64(parts[3], radix: 36), head >= 0, let filter = UInt64(parts[4], radix: 36)
        else { return nil }
        self.init(epoch: epoch, position: position, head: head, filter: filter)
        if parts.count >= 6 {
            guard let number = Int64(parts[5], radix: 36), number >= (form == "f1" ? 1 : 0) else { return nil }
            page = number
        }
        if parts.count >= 8 {
            guard let number = Int64(parts[6], radix: 36), number >= position, let hash = UInt64(parts[7], radix: 36)
            else { return nil }
            (grants, reader) = (number, hash)
        }
        if parts.count == 12 {
            guard let target = Int64(parts[8], radix: 36), target > grants, ["g", "l"].contains(parts[9]),
                let channel = ChannelID(hex: parts[10]), let listed = Int64(parts[11], radix: 36), listed >= 0
            else { return nil }
            application = Application(target: target, isGain: parts[9] == "g", channel: channel, position: listed)
        }
    }

    public var text: String {
        var parts = [epoch, position, head].map { String($0, radix: 36) } + [String(filter, radix: 36)]
        guard grants != position || application != nil || reader != 0 else {
            if page > 0 { parts.append(String(page, radix: 36)) }
            return "f1-" + parts.joined(separator: "-")
        }
        parts += [page, grants].map { String($0, radix: 36) } + [String(reader, radix: 36)]
        if let application {
            parts += [String(application.target, radix: 36), application.isGain ? "g" : "l", application.channel.hex]
            parts.append(String(application.position, radix: 36))
        }
        return "f2-" + parts.joined(separator: "-")
    }

    /// The position up to which the client needs no tombstones.
    ///
    /// During a first pull, this is ``head``, because the client never received an entity that was deleted before this
    /// pull began.
    public var reach: Int64 { max(position, head) }

    /// The FNV-1a hash of the sorted names; 0 if there is no filter.
    public static func filter(_ entityTypes: [String], channels: [String] = []) -> UInt64 {
        guard !entityTypes.isEmpty || !channels.isEmpty else { return 0 }
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ names: [String], _ separator: String) {
            for byte in Set(names).sorted().joined(separator: separator).utf8 {
                hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
            }
        }
        add(entityTypes, ",")
        // this separator is unambiguous, because names contain no control characters
        if !channels.isEmpty { add([""] + channels, "\u{1}") }
        return max(1, hash)
    }
}
