public import FoundationEssentials
import JSONText

/// A grant of a channel from one source. Its times are positions of the feed.
public struct ChannelGrant: Sendable, Hashable {
    public let channel: ChannelID
    public let role: ChannelRole
    /// The position from which the grant is valid.
    public let since: Int64
    /// The position from which the grant is no longer valid; nil while the grant lasts.
    public let until: Int64?
    /// Whether this is the own channel of another user who was joined into this user.
    public let isOfJoinedUser: Bool

    public init(
        channel: ChannelID,
        role: ChannelRole,
        since: Int64,
        until: Int64? = nil,
        isOfJoinedUser: Bool = false
    ) {
        self.channel = channel
        self.role = role
        self.since = since
        self.until = until
        self.isOfJoinedUser = isOfJoinedUser
    }

    func lasts(at position: Int64) -> Bool { since <= position && until.map { position < $0 } ?? true }
}

/// A user's present and past grants.
///
/// Cursors before the feed's horizon are not valid. Therefore a channel may be missing if all of its grants ended at or
/// before the horizon. If a channel was granted again, its earlier grants are included, because devices may not have
/// processed the end of the earlier grants.
public struct GrantHistory: Sendable {
    /// The channels that the user always holds, without a grant.
    let always: Set<ChannelID>
    /// The own channels of the user and of the users who were joined into the user, and the channel of every user.
    let own: Set<ChannelID>
    private let grants: [ChannelID: [ChannelGrant]]
    /// A hash of the user, which cursors contain.
    let reader: UInt64

    public init(of user: UUID, _ grants: [ChannelGrant]) {
        let own = ChannelID.of(user: user)
        always = [.everyone, own]
        self.own = always.union(grants.lazy.filter(\.isOfJoinedUser).map(\.channel))
        self.grants = Dictionary(grouping: grants, by: \.channel)
        let bytes = own.uuid.uuid
        reader = [bytes.0, bytes.1, bytes.2, bytes.3].reduce(1) { $0 << 8 | UInt64($1) }
    }

    /// The channels that the user held at a position.
    func held(at position: Int64) -> Set<ChannelID> {
        var held = always
        for (channel, grants) in grants where grants.contains(where: { $0.lasts(at: position) }) {
            held.insert(channel)
        }
        return held
    }

    /// Whether the user held a channel at all positions of a range.
    func holds(_ channel: ChannelID, throughout range: ClosedRange<Int64>) -> Bool {
        if always.contains(channel) { return true }
        var position = range.lowerBound
        while let grant = grants[channel]?.first(where: { $0.lasts(at: position) }) {
            guard let until = grant.until, until <= range.upperBound else { return true }
            position = until
        }
        return false
    }

    /// Whether the user held the channel at some time while an entity was in it.
    ///
    /// - Parameter leftAt: the position at which the entity left the channel; nil while the entity is in the channel.
    func sawStay(in channel: ChannelID, from joinedAt: Int64, to leftAt: Int64?) -> Bool {
        if always.contains(channel) { return true }
        return grants[channel]?.contains { grant in
            let end = min(grant.until ?? .max, leftAt ?? .max)
            return max(grant.since, joinedAt) < end
        } ?? false
    }
}

/// The channels that are listed in a user's token.
public struct TokenChannels: Sendable, Hashable {
    /// The valid names, sorted and without duplicates.
    public let names: [ByteExactString]
    public let role: ChannelRole
    /// When the issuer created the token, in seconds since 1970.
    public let issuedAt: Int64
    /// A hash that identifies the names and the role.
    public let digest: UUID

    /// Creates the value from a token's names. Texts that are not valid names of channels are omitted.
    public init(_ names: [String], _ role: ChannelRole, issuedAt: Int64) {
        let valid = Set(names.lazy.filter(ChannelName.isValid).map { ByteExactString($0) })
        self.names = valid.sorted { $0.string.utf8.lexicographicallyPrecedes($1.string.utf8) }
        self.role = role
        self.issuedAt = issuedAt
        // the names contain no line breaks
        digest = ChannelID(named: ([role.rawValue] + self.names.map(\.string)).joined(separator: "\n")).uuid
    }

    /// The relation between a token and the user's newest known token of the same issuer.
    public enum Order: Sendable, Hashable {
        /// A newer token is already known.
        case outdated
        case applied
        /// The token is newer, and has the same channels and role.
        case renewed
        case changed
    }

    /// Compares the token with the newest known token.
    ///
    /// If two tokens were issued in the same second, the token with the greater digest is treated as newer. This rule
    /// gives the same result on all gateways and in any order of requests.
    ///
    /// - Parameters:
    ///   - issuedAt: when the newest known token was created.
    ///   - digest: the digest of the newest known token.
    public func order(after issuedAt: Int64, _ digest: UUID) -> Order {
        if self.issuedAt < issuedAt { return .outdated }
        if digest == self.digest { return self.issuedAt == issuedAt ? .applied : .renewed }
        return self.issuedAt == issuedAt && self.digest < digest ? .outdated : .changed
    }
}
