import Crypto
public import FoundationEssentials
import JSONText

/// The identifier of an organization's channel, which is 16 bytes of the SHA-256 of the channel's name.
///
/// Rows and cursors contain the identifier instead of the name. The identifier is a hash, and not a number from a table
/// of names. Therefore the first writer that uses a name needs neither a look-up nor a lock.
public struct ChannelID: Sendable, Hashable, Comparable {
    public let uuid: UUID

    public init(_ uuid: UUID) { self.uuid = uuid }

    public init(named name: String) {
        var hash: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        withUnsafeMutableBytes(of: &hash) { bytes in
            bytes.copyBytes(from: Array(SHA256.hash(data: Array(name.utf8)).prefix(16)))
        }
        uuid = UUID(uuid: hash)
    }

    /// Reads 32 hexadecimal digits; nil for other texts.
    init?(hex text: Substring) {
        guard text.utf8.count == 32 else { return nil }
        let parts = [8, 4, 4, 4, 12].reduce(into: (rest: text, parts: [Substring]())) { split, count in
            split.parts.append(split.rest.prefix(count))
            split.rest = split.rest.dropFirst(count)
        }.parts
        guard let uuid = UUID(parsing: parts.joined(separator: "-")) else { return nil }
        self.uuid = uuid
    }

    var hex: String { uuid.lowercased.replacing("-", with: "") }

    public static func < (left: ChannelID, right: ChannelID) -> Bool { left.uuid < right.uuid }

    /// The channel that every user holds.
    ///
    /// If the visibility of a type changes from `organization` to channels, the type's entities leave this channel. No
    /// template can produce this channel, because the channel's name is empty.
    public static let everyone = ChannelID(named: "")

    /// The user's own channel, which the user holds without a grant.
    public static func of(user: UUID) -> ChannelID { ChannelID(named: ChannelName.name(ofUser: user)) }
}

/// The names of channels.
public enum ChannelName {
    public static let maximumBytes = 200
    /// The rule for valid names, as a text for error messages.
    public static let bounds = "1 to \(maximumBytes) bytes without control characters"
    /// The maximum number of channels of an entity.
    public static let limitOfEntity = 32
    /// The maximum number of channels to which a pull can be restricted.
    public static let limitOfRequest = 100
    /// The maximum number of channels that a user holds.
    public static let limitOfUser = 10_000

    /// Whether a name has 1 to 200 bytes and no control characters.
    public static func isValid(_ name: String) -> Bool {
        let bytes = name.utf8
        return (1...maximumBytes).contains(bytes.count) && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }

    public static func name(ofUser user: UUID) -> String { "user/" + user.lowercased }
}

/// The role of a user in a channel. The role determines the user's rights to the channel's entities.
public enum ChannelRole: String, Sendable, Hashable, CaseIterable, Comparable {
    case read
    /// The right to write, which includes the right to read.
    case write

    public static func < (left: ChannelRole, right: ChannelRole) -> Bool { left == .read && right == .write }
}
