public import FoundationEssentials
import JSONText

/// The channels that a token of a user names.
public struct TokenChannels: Sendable, Hashable {
    /// Valid names, each once, sorted.
    public let names: [ByteExactString]
    public let role: ChannelRole
    /// When the issuer created the token, in seconds since 1970.
    public let issuedAt: Int64
    /// Identifies the names and the role.
    public let digest: UUID

    /// Leaves out texts that are no names of channels.
    public init(_ names: [String], _ role: ChannelRole, issuedAt: Int64) {
        let valid = Set(names.lazy.filter(ChannelName.isValid).map { ByteExactString($0) })
        self.names = valid.sorted { $0.string.utf8.lexicographicallyPrecedes($1.string.utf8) }
        self.role = role
        self.issuedAt = issuedAt
        // no name has a line break
        digest = ChannelID(named: ([role.rawValue] + self.names.map(\.string)).joined(separator: "\n")).uuid
    }

    /// The position of a token's channels among those of a user's other tokens of the issuer.
    public enum Order: Sendable, Hashable {
        /// A newer token was seen before.
        case outdated
        case applied
        /// The same channels in a newer token.
        case renewed
        case changed
    }

    /// - Parameters:
    ///   - issuedAt: when the newest known token was created.
    ///   - digest: identifies its channels.
    public func order(after issuedAt: Int64, _ digest: UUID) -> Order {
        if self.issuedAt < issuedAt { return .outdated }
        if digest != self.digest { return .changed }
        return self.issuedAt == issuedAt ? .applied : .renewed
    }
}
