/// A position in an organization's feed, opaque to clients.
///
/// It contains the feed's epoch, the reached position, the head at which a first pull began, and the pull's filter.
public struct FeedCursor: Sendable, Hashable {
    /// The feed's epoch, which a purge or a restore changes.
    public var epoch: Int64
    /// The position up to which the client has seen everything.
    public var position: Int64
    /// During a first pull, the feed's end when the pull began; otherwise the position.
    public var head: Int64
    /// A hash of the requested entity types; 0 for all.
    public var filter: UInt64
    /// The number of the page that a device pulled.
    ///
    /// 0 unless that page or an earlier one assigned ids.
    public var page: Int64

    public init(epoch: Int64, position: Int64, head: Int64, filter: UInt64 = 0, page: Int64 = 0) {
        self.epoch = epoch
        self.position = position
        self.head = head
        self.filter = filter
        self.page = page
    }

    /// Reads a cursor; nil for an invalid one.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count <= 80, (5...6).contains(parts.count), parts[0] == "f1",
            let epoch = Int64(parts[1], radix: 36), let position = Int64(parts[2], radix: 36), position >= 0,
            let head = Int64(parts[3], radix: 36), head >= 0, let filter = UInt64(parts[4], radix: 36)
        else { return nil }
        var page: Int64 = 0
        if parts.count == 6 {
            guard let number = Int64(parts[5], radix: 36), number >= 1 else { return nil }
            page = number
        }
        self.init(epoch: epoch, position: position, head: head, filter: filter, page: page)
    }

    public var text: String {
        let numbers = [String(epoch, radix: 36), String(position, radix: 36), String(head, radix: 36)]
        let text = "f1-" + numbers.joined(separator: "-") + "-" + String(filter, radix: 36)
        return page > 0 ? text + "-" + String(page, radix: 36) : text
    }

    /// The position up to which the reader needs no tombstones.
    public var reach: Int64 { max(position, head) }

    /// FNV-1a over the sorted names; 0 for no filter.
    public static func filter(_ entityTypes: [String]) -> UInt64 {
        guard !entityTypes.isEmpty else { return 0 }
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in Set(entityTypes).sorted().joined(separator: ",").utf8 {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return max(1, hash)
    }
}
