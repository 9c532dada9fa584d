public import JSONText

/// An entity type of one organization.
public struct EntityType: Sendable, Hashable {
    /// The name, which matches `[a-z][a-z0-9_-]{0,63}`.
    @Exact public var name: String
    public var idSpace: IDSpace
    /// The members of the type's documents that contain ids. There are at most ``Relation/limit``.
    public var relations: [Relation]
    public var visibility: Visibility
    /// The priority of mutations that specify no priority (specification 001 (docs/spec), `priority`).
    public var defaultPriority: Int16
    /// Whether mutations are replayed to the organization's upstream.
    ///
    /// If false, mutations take effect in the built-in store.
    public var isForwarded: Bool
    /// Whether a mutation or an entity of the type exists.
    ///
    /// If true, the id space cannot change.
    public var isInUse: Bool
    /// The treatment of the type's documents when their owner is erased.
    public var onErase: OnErase
    /// The requests of mutations that have no endpoint.
    public var routes: EntityRoutes?
    /// The rules for the channels of the type's entities, and for the channels that the entities grant.
    ///
    /// The rules are used only if ``visibility`` is ``Visibility/channels``.
    public var channels = ChannelRules()
    /// The visibility before the type got channels.
    public var formerVisibility: Visibility?
    /// Whether the gateway checks the right to write before it sends a mutation to the upstream (product rule 27).
    ///
    /// The setting is used only if ``visibility`` is ``Visibility/channels`` and the type is forwarded.
    public var checksChannels = false

    public init(
        name: String,
        idSpace: IDSpace,
        relations: [Relation] = [],
        visibility: Visibility,
        defaultPriority: Int16,
        isForwarded: Bool,
        isInUse: Bool,
        onErase: OnErase = .delete
    ) {
        self.name = name
        self.idSpace = idSpace
        self.relations = relations
        self.visibility = visibility
        self.defaultPriority = defaultPriority
        self.isForwarded = isForwarded
        self.isInUse = isInUse
        self.onErase = onErase
    }

    /// Whether entities of the type can grant channels.
    public var makesGrants: Bool { visibility == .channels && !channels.grants.isEmpty }

    /// Whether the gateway sends a mutation to the upstream only by a route, and only if the user may write to the
    /// entity's channels.
    public var isCheckedBeforeSending: Bool { isForwarded && visibility == .channels && checksChannels }

    /// The rules of a type with channels; nil for a type without channels.
    public var channelRules: ChannelRules? {
        guard visibility == .channels else { return nil }
        var rules = channels
        rules.former = formerVisibility
        return rules
    }

    /// Creates an unknown type at its first use (product rule 16).
    ///
    /// The id space of the type is `mapped`. With an upstream, the type is forwarded, and each entity is visible only
    /// to its creator. Without an upstream, the type is in the built-in store, and its entities are visible to all
    /// users of the organization.
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

    /// The default priority of a type (specification 001 (docs/spec), `priority`: "Activities default 10, expenses 8,
    /// contacts 5"). Other types have 0.
    public static func defaultPriority(_ name: String) -> Int16 {
        switch name {
        case "activity": 10
        case "expense": 8
        case "contact": 5
        default: 0
        }
    }

    /// Whether a name matches `[a-z][a-z0-9_-]{0,63}`.
    public static func isValidName(_ name: String) -> Bool {
        let bytes = name.utf8
        guard let first = bytes.first, (97...122).contains(first), bytes.count <= 64 else { return false }
        return bytes.allSatisfy { byte in
            (97...122).contains(byte) || (48...57).contains(byte) || byte == 0x5f || byte == 0x2d
        }
    }
}

/// Whether entity types must be declared before use.
public enum EntityTypePolicy: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// An unknown type is registered at its first use.
    case open
    /// An unknown type is refused (specification 000 (docs/spec), `entity_type_valid_enum`).
    case registered
}

/// The origin of an entity type's ids.
///
/// The id space cannot change after the type's first mutation or entity.
public enum IDSpace: String, Sendable, Hashable, CaseIterable {
    /// The client's UUID is mapped to a server id (specification 000 (docs/spec)).
    case mapped
    /// Each device assigns 64-bit ids from its own counter.
    ///
    /// The gateway translates the ids in relations, both in pushes and in pulls (specification 002 (docs/spec)).
    case device
    /// The ids are global. Global ids are used unchanged and without mappings.
    ///
    /// See specification 002 (docs/spec), "Shared Global IDs".
    case shared

    /// Whether the server, and not the client, assigns the permanent id of a created entity.
    public var isServerGiven: Bool { self != .shared }
}

/// The users who see the entities of a type.
public enum Visibility: String, Sendable, Hashable, CaseIterable {
    case organization
    /// Only the creator sees an entity. For other users, the entity does not exist.
    case user
    /// The users who hold one of the entity's channels see the entity.
    case channels
}

/// The effect on a lane when one of its mutations fails or is in conflict.
public enum FailurePolicy: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// All later mutations of the lane wait until a person settles this mutation.
    case halt
    /// Only the mutations that depend on this mutation wait.
    case `continue`
}

/// The mutations of a lane that may run at the same time.
public enum LaneOrder: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// One mutation runs at a time, in the lane's order (product rule 2).
    case lane
    /// Mutations that do not depend on each other may run at the same time (product rule 19).
    case dependencies
}

/// The strategy for a conflict (specification 001 (docs/spec), `conflict_resolution`).
public enum ConflictResolution: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// The mutation waits for a person.
    case manual
    /// The mutation is discarded, and the server's entity is adopted.
    case serverWins = "server_wins"
    /// The mutation overwrites the state of the other writer.
    case clientWins = "client_wins"
}

/// The way in which users are created.
public enum Provisioning: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// The user's first push with a valid token creates the user.
    case onFirstPush = "on_first_push"
    /// Only an operator creates users.
    case explicit
}
