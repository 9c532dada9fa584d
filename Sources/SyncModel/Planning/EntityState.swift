public import FoundationEssentials

/// The current state of one entity.
public struct EntityState: Sendable {
    /// Whether the id is a number in JSON.
    public var isIntegerID: Bool
    /// The version, which is 1 after the create and is incremented by each write.
    public var version: Int64
    /// Whether the entity is a tombstone.
    public var isDeleted: Bool
    /// The document as the client wrote it, in JSON.
    ///
    /// Nil for a tombstone, and for a document that cannot be decrypted.
    public var document: [UInt8]?
    /// Whether the document is stored but cannot be decrypted.
    ///
    /// Such an entity can be replaced or deleted, but not patched.
    public var isUnreadable = false
    /// The size, in bytes, of a stored document that was not read because of the read limit.
    ///
    /// The value is 0 if the document was read, or does not exist.
    public var unreadBytes = 0
    /// Whether the document was not read because the entity is only the target of references.
    public var isTarget = false
    /// The size of the document in bytes, even if the document was not read.
    var documentBytes: Int { document?.count ?? unreadBytes }
    /// The user who created the entity.
    public var owner: UUID
    /// The client id that the creator's device gave to the entity.
    public var clientID: UUID?
    /// The writer of the latest version. This writer also wrote all other versions after ``runBase``.
    public var lastWriter: Writer
    /// The version before the last writer's uninterrupted series of writes.
    public var runBase: Int64
    /// Whether the database has a row for the entity.
    public var isStored = false
    /// The upstream's ETag of this state.
    ///
    /// Nil for types in the built-in store, and if the upstream sent no ETag.
    public var etag: String?
    /// The references to store with a written entity; nil for types without enforced relations.
    public fileprivate(set) var references: Set<EntityReference>?
    /// Whether the stored references may have to be replaced.
    public fileprivate(set) var replacesReferences = false
    /// The stored position of the entity's last change; 0 for a new entity.
    private var storedPosition: Int64 = 0
    private var boxedMembership: ChannelMembership.Box?

    public init(
        isIntegerID: Bool,
        version: Int64,
        isDeleted: Bool,
        document: [UInt8]?,
        owner: UUID,
        clientID: UUID?,
        lastWriter: Writer,
        runBase: Int64
    ) {
        self.isIntegerID = isIntegerID
        self.version = version
        self.isDeleted = isDeleted
        self.document = document
        self.owner = owner
        self.clientID = clientID
        self.lastWriter = lastWriter
        self.runBase = runBase
    }

    /// The entity's channels and grants, and the changes of its channels and grants.
    var membership: ChannelMembership {
        get { boxedMembership?.membership ?? ChannelMembership() }
        set { boxedMembership = newValue.isEmpty ? nil : ChannelMembership.Box(newValue) }
    }
    /// The entity's channels; nil for a type without ``ChannelRules``.
    public var channels: [ChannelID]? {
        get { boxedMembership?.membership.channels }
        set {
            guard newValue != nil || boxedMembership != nil else { return }
            membership.channels = newValue
        }
    }
    /// The grants that the entity makes after its next write; nil for a type without grants.
    public var grants: [GrantedChannel]? {
        get { boxedMembership?.membership.grants }
        set { membership.grants = newValue }
    }
    /// The stored position and channels of the entity; nil for a new entity.
    public var stored: StoredPlace? {
        get {
            guard storedPosition > 0 else { return nil }
            return StoredPlace(position: storedPosition, channels: boxedMembership?.membership.storedChannels)
        }
        set {
            storedPosition = newValue?.position ?? 0
            if newValue?.channels != nil || boxedMembership != nil { membership.storedChannels = newValue?.channels }
        }
    }
    /// The changes that writing this state makes to the entity's stays. A stay is the time of an entity in a channel.
    public var stays: StayChanges { boxedMembership?.membership.stays ?? StayChanges() }

    /// The history of versions for the `base_version` check.
    var run: VersionHistory { VersionHistory(version: version, base: runBase, lastWriter: lastWriter) }

    /// Whether a writer that last read the version `baseVersion` may write.
    func accepts(baseVersion: Int64?, from writer: Writer) -> Bool {
        run.verdict(on: baseVersion, from: writer) == .fits
    }

    /// Whether an entity exists for a user.
    ///
    /// A private entity exists only for its creator. An entity in channels exists only for users who hold one of these
    /// channels.
    func isVisible(to user: UUID, _ visibility: Visibility, _ access: ChannelAccess = ChannelAccess()) -> Bool {
        switch visibility {
        case .organization: true
        case .user: owner == user
        case .channels: access.role(of: user, on: channels ?? []) != nil
        }
    }

    /// Whether a user may see the entity.
    public func mayBeSeen(by user: UUID, _ visibility: Visibility, _ access: ChannelAccess = ChannelAccess()) -> Bool {
        isVisible(to: user, visibility, access)
    }

    /// The state after one more write.
    func written(_ document: [UInt8]?, isDeleted: Bool, by writer: Writer) -> EntityState {
        var next = self
        next.document = document
        next.isUnreadable = false
        next.unreadBytes = 0
        next.isDeleted = isDeleted
        next.version = version + 1
        next.etag = nil
        if writer != lastWriter { next.runBase = version }
        next.lastWriter = writer
        return next
    }
}

/// The entities of an organization that a group of pushes reads or writes.
///
/// The table contains the states that were read. Each plan updates these states, and thereby each push is planned with
/// the effects of earlier pushes in the group.
public struct EntityTable: Sendable {
    private struct Slot {
        let key: EntityKey
        var state: EntityState
        /// The ordinal of the entity's last write in the group; nil if the group has not written it.
        ///
        /// The order of these ordinals is the order of the entities in the feed.
        var lastWrite: Int?
    }

    private var slots: [Slot] = []
    /// The index in `slots` of each entity.
    private var places: [EntityKey: Int] = [:]
    private var writeCount = 0
    /// The size of the largest document that was read, in bytes.
    private(set) var largestDocument = 0
    /// Whether any document was not read because of the read limit.
    private(set) var hasUnread = false
    /// The organization's enforced relations.
    public var relations = EntityRelations()
    /// The number of further entities that deletions may delete or change in this push or step of a lane.
    var deletionRoom = EntityRelations.limit
    /// The stored references to entities that may be deleted, by the entity to which the references point.
    private var storedReferrers: [EntityKey: FoundReferrers] = [:]
    /// For each entity, the entities that have begun to refer to it since the table was read.
    private var newReferrers: [EntityKey: Set<EntityKey>] = [:]
    /// The rules of the entity types that have channels, by type.
    private let rules: [ByteExactString: ChannelRules]
    /// The channels that the users of the group hold after the pushes that were planned so far.
    public var access = ChannelAccess()
    /// The number of grants and stays that the writes change (``WorkBounds/groupGrants``, ``WorkBounds/groupStays``).
    public private(set) var channelChanges = ChannelChanges()
    /// For each written entity, the grants before its first write, and the number of grants that its writes have
    /// changed.
    private var grantChanges: [EntityKey: (before: Set<GrantedChannel>, count: Int)] = [:]

    public init(_ rules: [ByteExactString: ChannelRules] = [:]) { self.rules = rules }

    /// An empty table with the same rules.
    var emptied: EntityTable { EntityTable(rules) }

    /// Reserves capacity for additional entities.
    mutating func reserve(_ more: Int) { places.reserveCapacity(places.count + more) }

    /// The current state of an entity; nil if the entity never existed.
    public subscript(key: EntityKey) -> EntityState? { places[key].map { slots[$0].state } }

    /// The entities whose documents were not read because of the read limit.
    public func unread(where isNeeded: (EntityKey, EntityState) -> Bool) -> [EntityKey] {
        slots.filter { $0.state.unreadBytes > 0 && isNeeded($0.key, $0.state) }.map(\.key)
    }

    /// Adds a row of the database.
    public mutating func load(_ key: EntityKey, _ state: EntityState) {
        largestDocument = max(largestDocument, state.documentBytes)
        if state.unreadBytes > 0 { hasUnread = true }
        var state = state
        // evaluates the templates of a state that was stored before the type had channels
        if state.channels == nil, !rules.isEmpty, let rules = rules[key.type] { state = state.placed(by: rules, key) }
        set(key, state, lastWrite: nil)
    }

    public mutating func write(_ key: EntityKey, _ state: EntityState) {
        writeCount += 1
        let referring = withReferences(state, of: key)
        guard !rules.isEmpty || state.channels != nil else { return set(key, referring, lastWrite: writeCount) }
        let placed = referring.placed(by: rules[key.type], key)
        if let grants = placed.grants {
            countGrants(grants, of: key)
            access.replace(grants, of: key)
        }
        countStays(of: placed, key)
        set(key, placed, lastWrite: writeCount)
    }

    /// Replaces the text of an entity's document. The replacement alone is not a write of the entity.
    mutating func setDocument(_ document: [UInt8], of key: EntityKey) {
        guard let place = places[key] else { return }
        var state = slots[place].state
        state.document = document
        state = withReferences(state, of: key)
        if let rules = rules[key.type] {
            state = state.placed(by: rules, key)
            if slots[place].lastWrite != nil { countStays(of: state, key) }
        }
        slots[place].state = state
    }

    /// Updates the count of changed grants. `after` has the entity's grants after its latest write.
    private mutating func countGrants(_ after: [GrantedChannel], of key: EntityKey) {
        let known = grantChanges[key]
        let before = known?.before ?? Set(self[key]?.granted(by: rules[key.type], key) ?? [])
        let count = ChannelChanges(from: before, to: Set(after)).grants
        grantChanges[key] = (before, count)
        channelChanges.grants += count - (known?.count ?? 0)
    }

    /// Updates the count of changed stays. `next` is the entity's state after its latest write.
    private mutating func countStays(of next: EntityState, _ key: EntityKey) {
        let known = places[key].flatMap { slots[$0].lastWrite == nil ? nil : slots[$0].state.stays.count } ?? 0
        channelChanges.stays += next.stays.count - known
    }

    /// The number of grants that follow from an entity's document; the maximum number if they are unknown.
    func grantCount(of state: EntityState, _ key: EntityKey) -> Int {
        guard makesGrants(key.type) else { return 0 }
        return state.granted(by: rules[key.type], key)?.count ?? ChannelRules.limitOfGrants
    }

    /// Whether entities of a type grant channels.
    func makesGrants(_ type: String) -> Bool { rules[type].map { !$0.grants.isEmpty } ?? false }

    private mutating func set(_ key: EntityKey, _ state: EntityState, lastWrite: Int?) {
        let slot = Slot(key: key, state: state, lastWrite: lastWrite)
        // the method inserts before it searches, because most entities are new, and a new entity then needs only one
        // look-up
        if let place = places.updateValue(slots.count, forKey: key) {
            places[key] = place
            slots[place] = slot
        } else {
            slots.append(slot)
        }
    }

    // MARK: - References

    /// Adds the stored references to an entity. The entities that have these references are loaded separately.
    public mutating func load(_ referrers: FoundReferrers, of key: EntityKey) { storedReferrers[key] = referrers }

    /// The entities that may refer to an entity; nil if there are too many of them.
    func referrers(of key: EntityKey) -> Set<EntityKey>? {
        let stored = storedReferrers[key] ?? FoundReferrers()
        return stored.isCut ? nil : stored.entities.union(newReferrers[key] ?? [])
    }

    /// The state, together with the references that must be stored.
    private mutating func withReferences(_ state: EntityState, of key: EntityKey) -> EntityState {
        guard !relations.of(key.type).isEmpty else { return state }
        var next = state
        let references = relations.references(in: state.document, of: key.type)
        for reference in references { newReferrers[reference.target, default: []].insert(key) }
        let before = self[key]
        // usually an update does not change the references
        let isSame =
            before?.document != nil && relations.references(in: before?.document, of: key.type) == references
        next.references = references
        next.replacesReferences = !isSame || before?.replacesReferences == true
        return next
    }

    /// The writes of the group in the order of execution, with one write for each entity.
    public var writes: [(key: EntityKey, state: EntityState)] {
        let written = slots.indices.filter { slots[$0].lastWrite != nil }
        let inOrder = written.sorted { (slots[$0].lastWrite ?? 0) < (slots[$1].lastWrite ?? 0) }
        return inOrder.map { (slots[$0].key, slots[$0].state) }
    }
}

/// The latest value for each entity, found by its client id or its server id.
struct EntityIndex<Value> {
    private var byClientID: [ClientReference: Value] = [:]
    /// Values by the text of the server id.
    ///
    /// An integer id and a string id with the same digits identify the same entity.
    private var byServerID: [EntityKey: Value] = [:]

    mutating func record(_ value: Value, of entity: EntityName) {
        if let name = entity.reference { byClientID[name] = value }
        if let id = entity.serverID { byServerID[EntityKey(type: entity.type, id: id.text)] = value }
    }

    /// The latest value stored under the entity's client id, and the latest value stored under its server id.
    func latest(of entity: EntityName) -> (Value?, Value?) {
        if byClientID.isEmpty, byServerID.isEmpty { return (nil, nil) }
        return (
            entity.reference.flatMap { byClientID[$0] },
            entity.serverID.flatMap { byServerID[EntityKey(type: entity.type, id: $0.text)] }
        )
    }
}

/// The identifier of an entity within an organization.
public struct EntityKey: Sendable, Hashable {
    @Exact public private(set) var type: String
    /// The text of the server id.
    @Exact public private(set) var id: String

    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}
