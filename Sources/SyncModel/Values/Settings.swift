public import Foundation

/// How a conflict is settled (seed 001, `conflict_resolution`).
public enum ConflictResolution: String, Sendable, Hashable, CaseIterable {
    /// Waits for a person.
    case manual
    /// Discards the mutation and adopts the server's entity.
    case serverWins = "server_wins"
    /// Writes over what the other writer left.
    case clientWins = "client_wins"
}

/// What a lane does when one of its mutations fails or conflicts.
public enum LaneReaction: String, Sendable, Hashable, CaseIterable {
    /// Everything behind waits for a person.
    case halt
    /// Only dependants wait.
    case `continue`
}

/// Who brings a user into being.
public enum Provisioning: String, Sendable, Hashable, CaseIterable {
    /// The first push of a user with a valid token does.
    case onFirstPush = "on_first_push"
    /// Only an operator does.
    case explicit
}

/// Whether entity types must be declared before use.
public enum EntityTypePolicy: String, Sendable, Hashable, CaseIterable {
    /// An unknown type is registered at its first use.
    case open
    /// An unknown type is refused (seed 000, `entity_type_valid_enum`).
    case registered
}

/// Where the ids of an entity type come from; fixed from the type's first mutation or entity on.
public enum IDSpace: String, Sendable, Hashable, CaseIterable {
    /// A client UUID is mapped to a server id (seed 000).
    case mapped
    /// 64-bit ids that each device of a user counts for itself, and relations translated both ways (seed 002).
    case device
    /// Global ids, used as they are, without mapping rows (seed 002, "Shared Global IDs").
    case shared

    /// Whether what is created gets its permanent id from the server, and not from the client.
    public var isServerGiven: Bool { self != .shared }
}

/// Who sees the entities of a type.
public enum Visibility: String, Sendable, Hashable, CaseIterable {
    case organization
    /// The creator alone; to others the entity does not exist.
    case user
}

/// Whether an organization is served.
public enum OrganizationStatus: String, Sendable, Hashable, CaseIterable {
    case active
    case suspended
    /// Its data is being deleted; it never comes back.
    case purging
}

/// An organization's settings: each has a default, and what an operator did not set keeps it.
public struct OrganizationSettings: Sendable, Hashable {
    /// Who brings a user into being.
    public var provisioning: Provisioning = .onFirstPush
    /// Whether entity types must be declared.
    public var entityTypes: EntityTypePolicy = .open
    /// What a lane does when a mutation fails.
    public var onFailure: LaneReaction = .continue
    /// What a lane does when a mutation conflicts.
    public var onConflict: LaneReaction = .halt
    /// Strategy of mutations that name none.
    public var conflictResolution: ConflictResolution = .manual
    /// Age in days after which a mutation's `created_at` counts as stale; 1 to 3,650.
    public var staleAfterDays = 14
    /// Requests that the organization may make a second, 1 to 1,000,000; nil for any number.
    public var requestsPerSecond: Int64?
    /// New mutations that each user may push a day, 1 to 1,000,000,000; nil for any number.
    public var mutationsPerDayPerUser: Int64?

    /// The defaults.
    public init() {}

    /// What the organization may ask for; nil for any number.
    public var requestQuota: Quota? { requestsPerSecond.map { Quota(.requests, limit: $0) } }

    /// What each user may push; nil for any number.
    public var mutationQuota: Quota? { mutationsPerDayPerUser.map { Quota(.mutations, limit: $0) } }

    /// Whether there is a quota of either kind.
    public var hasQuota: Bool { requestsPerSecond != nil || mutationsPerDayPerUser != nil }

    /// Whether a mutation that comes to stand so holds its lane until a person settles it (product rule 4).
    public func halts(at status: MutationStatus) -> Bool {
        switch status {
        case .failed: onFailure == .halt
        case .conflict: onConflict == .halt
        default: false
        }
    }
}

/// A tenant as every request sees it.
public struct Organization: Sendable, Hashable {
    /// The tenant's id, from the verified token.
    public var id: UUID
    /// For operators, 1 to 200 characters.
    public var name: String
    /// Whether it is served.
    public var status: OrganizationStatus
    /// What operators set.
    public var settings: OrganizationSettings
    /// Where mutations of forwarded types go; nil when the organization has no upstream.
    public var upstream: UpstreamSettings?

    /// Creates the value.
    public init(
        id: UUID,
        name: String,
        status: OrganizationStatus,
        settings: OrganizationSettings,
        upstream: UpstreamSettings? = nil
    ) {
        self.id = id
        self.name = name
        self.status = status
        self.settings = settings
        self.upstream = upstream
    }
}

/// What is known of an entity type in one organization.
public struct EntityType: Sendable, Hashable {
    /// `[a-z][a-z0-9_-]{0,63}`.
    public var name: String
    /// Where the ids come from.
    public var idSpace: IDSpace
    /// Members of the type's documents that hold ids, ``Relation/limit`` at most.
    public var relations: [Relation]
    /// Who sees the entities.
    public var visibility: Visibility
    /// Priority of mutations that name none (seed 001, `priority`).
    public var defaultPriority: Int16
    /// Whether mutations are replayed against the organization's upstream; otherwise they take effect in the built-in
    /// store.
    public var isForwarded: Bool
    /// Whether a mutation or an entity of the type exists, so that the id space is fixed.
    public var isInUse: Bool

    /// Creates the value.
    public init(
        name: String,
        idSpace: IDSpace,
        relations: [Relation] = [],
        visibility: Visibility,
        defaultPriority: Int16,
        isForwarded: Bool,
        isInUse: Bool
    ) {
        self.name = name
        self.idSpace = idSpace
        self.relations = relations
        self.visibility = visibility
        self.defaultPriority = defaultPriority
        self.isForwarded = isForwarded
        self.isInUse = isInUse
    }

    /// What an unknown type becomes at its first use: mapped; with an upstream forwarded and visible to its user, else
    /// in the built-in store and visible to the organization (product rule 16).
    public init(firstUseOf name: String, hasUpstream: Bool) {
        self.init(
            name: name,
            idSpace: .mapped,
            visibility: hasUpstream ? .user : .organization,
            defaultPriority: EntityType.defaultPriority(name),
            isForwarded: hasUpstream,
            isInUse: false
        )
    }

    /// Seed 001, `priority`: "Activities default 10, expenses 8, contacts 5"; others 0.
    public static func defaultPriority(_ name: String) -> Int16 {
        switch name {
        case "activity": 10
        case "expense": 8
        case "contact": 5
        default: 0
        }
    }

    /// `[a-z][a-z0-9_-]{0,63}`.
    public static func isValidName(_ name: String) -> Bool {
        let bytes = name.utf8
        guard let first = bytes.first, (97...122).contains(first), bytes.count <= 64 else { return false }
        return bytes.allSatisfy { byte in
            (97...122).contains(byte) || (48...57).contains(byte) || byte == 0x5f || byte == 0x2d
        }
    }
}
