public import FoundationEssentials
import JSONText
import Synchronization

/// The channels that users of an organization hold at this moment.
///
/// If the grants of a user were not read, the user holds only the user's own channel.
public struct ChannelAccess: Sendable {
    private var grants: [UUID: [ChannelID: [ByteExactString: ChannelRole]]] = [:]
    /// For each user with many channels, the channels that were read.
    private var read: [UUID: Set<ChannelID>] = [:]
    /// For each user with many channels, the channels on which decisions depended. All copies share this object.
    private var consulted: ConsultedChannels?
    /// The sources with replaced grants. The database still has the earlier grants of these sources.
    private var replaced: Set<ByteExactString> = []
    /// The known users, by subject. No decision concerns the user of a subject that is missing here.
    private var subjects: [Subject: UUID] = [:]

    public init() {}

    /// Whether a user holds many channels, and not all of them were read.
    public func leavesOut(_ user: UUID) -> Bool { read[user] != nil }

    /// Records that a user holds many channels, and that no channel was read yet.
    public mutating func leaveOut(_ user: UUID) {
        (grants[user], read[user]) = (nil, [])
        consulted = consulted ?? ConsultedChannels()
    }

    /// Records the channels for which the user's grants were read; nil for all channels.
    public mutating func note(read channels: Set<ChannelID>?, of user: UUID) {
        read[user] = channels.flatMap { read[user]?.union($0) }
    }

    /// The channels on which a decision depended although they were not read. Such a decision is invalid.
    public var unread: [UUID: Set<ChannelID>] {
        guard let consulted = consulted?.all else { return [:] }
        return consulted.reduce(into: [:]) { unread, pair in
            guard let missing = read[pair.key].map(pair.value.subtracting), !missing.isEmpty else { return }
            unread[pair.key] = missing
        }
    }

    /// Adds a stored grant, if the grants of its source were not replaced since.
    public mutating func load(_ user: UUID, _ channel: ChannelID, _ role: ChannelRole, from source: String) {
        let source = ByteExactString(source)
        guard !replaced.contains(source) else { return }
        grants[user, default: [:]][channel, default: [:]][source] = role
    }

    /// Removes the stored grants of some channels before they are read again.
    public mutating func forget(_ channels: Set<ChannelID>, of user: UUID) {
        guard var held = grants[user] else { return }
        for channel in channels { held[channel] = held[channel]?.filter { replaced.contains($0.key) } }
        grants[user] = held
    }

    /// Records that a subject is a name of this user.
    public mutating func note(_ subject: Subject, of user: UUID) { subjects[subject] = user }

    /// Replaces the grants from one source, which is this entity.
    mutating func replace(_ granted: [GrantedChannel], of key: EntityKey) {
        let source = ByteExactString(GrantSource.entity(key).text)
        replaced.insert(source)
        for user in grants.keys {
            for channel in grants[user]?.keys.map(\.self) ?? [] { grants[user]?[channel]?[source] = nil }
        }
        for grant in granted {
            guard let user = user(of: grant.holder) else { continue }
            grants[user, default: [:]][ChannelID(named: grant.channel), default: [:]][source] = grant.role
        }
    }

    private func user(of holder: GrantHolder) -> UUID? {
        switch holder {
        case .user(let id): id
        case .subject(let subject): subjects[subject]
        }
    }

    /// A user's strongest role in an entity's channels; nil if the user holds none of these channels.
    func role(of user: UUID, on channels: [ChannelID]) -> ChannelRole? {
        if channels.contains(.of(user: user)) { return .write }
        if read[user] != nil { consulted?.note(channels, of: user) }
        guard let held = grants[user] else { return nil }
        return channels.lazy.flatMap { held[$0]?.values.map(\.self) ?? [] }.max()
    }
}

/// The channels on which decisions about users depended.
private final class ConsultedChannels: Sendable {
    private let channels = Mutex<[UUID: Set<ChannelID>]>([:])

    var all: [UUID: Set<ChannelID>] { channels.withLock { $0 } }

    func note(_ consulted: [ChannelID], of user: UUID) {
        channels.withLock { $0[user, default: []].formUnion(consulted) }
    }
}

/// The source of a grant.
public enum GrantSource: Sendable, Hashable {
    case `operator`
    /// The grants of another user who was joined into this user.
    case user(UUID)
    /// The claim in an issuer's tokens for a user. This user may have been joined into another user since.
    case issuer(ByteExactString, of: UUID)
    case entity(EntityKey)

    /// The stored form.
    public var text: String {
        switch self {
        case .operator: "operator"
        case .user(let user): "user " + user.lowercased
        case .issuer(let issuer, let user): "issuer " + user.lowercased + " " + issuer.string
        // the name of a type contains no space
        case .entity(let key): "entity " + key.type + " " + key.id
        }
    }

    public init?(_ text: String) {
        let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard let kind = parts.first else { return nil }
        let rest = parts.count > 1 ? parts[1] : ""
        switch kind {
        case "operator" where parts.count == 1: self = .operator
        case "user":
            guard let user = UUID(parsing: String(rest)) else { return nil }
            self = .user(user)
        case "issuer":
            let names = rest.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            guard names.count == 2, let user = UUID(parsing: String(names[0])) else { return nil }
            self = .issuer(ByteExactString(names[1]), of: user)
        case "entity":
            let names = rest.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            guard names.count == 2 else { return nil }
            self = .entity(EntityKey(type: String(names[0]), id: String(names[1])))
        default: return nil
        }
    }
}

/// The stored position and channels of an entity.
public struct StoredPlace: Sendable, Hashable {
    /// The position of the entity's last change.
    public let position: Int64
    /// Nil for an entity of a type without channels, and for an entity for which its type's templates have not been
    /// evaluated yet.
    public let channels: [ChannelID]?

    public init(position: Int64, channels: [ChannelID]?) {
        self.position = position
        self.channels = channels
    }
}

/// An entity's channels and grants, and the changes of its channels.
struct ChannelMembership: Sendable {
    var channels: [ChannelID]?
    var storedChannels: [ChannelID]?
    var grants: [GrantedChannel]?
    var stays = StayChanges()

    /// Whether the entity's type has no channels, and had no channels at the entity's last write.
    var isEmpty: Bool { channels == nil && storedChannels == nil && grants == nil && stays == StayChanges() }

    /// A reference to a membership. The reference keeps entity states small. This matters because planners copy a state
    /// several times for each mutation, and most types have no channels.
    final class Box: Sendable {
        let membership: ChannelMembership

        init(_ membership: ChannelMembership) { self.membership = membership }
    }
}

extension EntityState {
    /// Returns the entity with the channels and grants that follow from its document.
    ///
    /// - Parameter rules: the rules of the entity's type; nil for a type without channels.
    public func placed(by rules: ChannelRules?, _ key: EntityKey) -> EntityState {
        var placed = membership
        if let rules {
            let id = ServerID(text: key.id, isInteger: isIntegerID)
            // a tombstone remains in the channels of the last document
            if !isDeleted { placed.channels = rules.ids(document: document, id: id, owner: owner) }
            if isDeleted, channels == nil { placed.channels = [] }
            // a deletion ends all grants of the entity, even if the settings of its type no longer have `grants`; nil
            // keeps the stored grants
            placed.grants = isDeleted ? [] : rules.grants.isEmpty ? nil : granted(by: rules, key)
        } else {
            (placed.channels, placed.grants) = (nil, channels == nil ? nil : [])
        }
        let stored = stored?.channels ?? []
        let (before, after) = (channelsBefore(rules?.former, placed.channels), placed.channels ?? [])
        placed.stays = StayChanges(
            moved: after.filter(stored.contains),
            joined: after.filter { !stored.contains($0) },
            left: before.filter { !after.contains($0) }
        )
        var next = self
        next.membership = placed
        return next
    }

    /// The grants that follow from the entity's document; nil if the grants are unknown (``ChannelRules/uuidIssuers``).
    func granted(by rules: ChannelRules?, _ key: EntityKey) -> [GrantedChannel]? {
        guard let rules else { return [] }
        let id = ServerID(text: key.id, isInteger: isIntegerID)
        return rules.granted(document: document, id: id, owner: owner)
    }

    /// The channels that the entity had when it was read.
    ///
    /// If the type had no channels at that time, this is the channel that represents the type's visibility. No stay
    /// (``StayChanges``) in this channel is stored.
    private func channelsBefore(_ former: Visibility?, _ after: [ChannelID]?) -> [ChannelID] {
        if let channels = stored?.channels { return channels }
        guard isStored, after != nil else { return [] }
        return [former == .organization ? .everyone : .of(user: owner)]
    }
}

/// The changes that a write makes to an entity's stays. A stay is the time of an entity in a channel.
public struct StayChanges: Sendable, Hashable {
    public var moved: [ChannelID] = []
    public var joined: [ChannelID] = []
    public var left: [ChannelID] = []

    /// The number of stays that the write changes.
    public var count: Int { moved.count + joined.count + left.count }
}
