public import Foundation

/// Names an entity within an organization.
public struct EntityKey: Sendable, Hashable {
    /// Entity type.
    public let type: String
    /// Text of the server id.
    public let id: String

    /// Creates the key.
    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}

/// Who writes: a user on a device.
public struct Writer: Sendable, Hashable {
    /// The user.
    public let user: UUID
    /// The device.
    public let device: UUID

    /// Creates the value.
    public init(user: UUID, device: UUID) {
        self.user = user
        self.device = device
    }

    /// Who stands as the writer of a state that a user took over from the upstream: no device, so that nobody's edits
    /// count as made on it who has not seen it.
    static func adopting(_ user: UUID) -> Writer { Writer(user: user, device: noDevice) }

    /// Whether it is one of a user's devices that wrote, and not a state that was taken over.
    func isOwn(of user: UUID) -> Bool { self.user == user && device != Self.noDevice }

    private static let noDevice = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0))
}

/// One entity of the built-in store as it stands.
public struct EntityState: Sendable {
    /// Whether JSON shows the id as a number.
    public var isIntegerID: Bool
    /// Raised by one with each write; the create makes 1.
    public var version: Int64
    /// Whether it is a tombstone.
    public var isDeleted: Bool
    /// JSON text as written; nil for a tombstone, and for one that cannot be opened.
    public var document: [UInt8]?
    /// Whether the document is stored and cannot be opened: it can be replaced or deleted, and not patched.
    public var isUnreadable = false
    /// The creator.
    public var owner: UUID
    /// The creator's temporary id.
    public var clientID: UUID?
    /// Whose writes the current run of versions are.
    public var lastWriter: Writer
    /// The version before the last writer's uninterrupted run of writes.
    public var runBase: Int64
    /// Whether the database has a row of it.
    public var isStored: Bool
    /// The upstream's validator of this state; nil for built-in types, and where the upstream gave none.
    public var etag: String?

    /// Creates the value.
    public init(
        isIntegerID: Bool,
        version: Int64,
        isDeleted: Bool,
        document: [UInt8]?,
        owner: UUID,
        clientID: UUID?,
        lastWriter: Writer,
        runBase: Int64,
        isStored: Bool,
        etag: String? = nil
    ) {
        self.isIntegerID = isIntegerID
        self.version = version
        self.isDeleted = isDeleted
        self.document = document
        self.owner = owner
        self.clientID = clientID
        self.lastWriter = lastWriter
        self.runBase = runBase
        self.isStored = isStored
        self.etag = etag
    }

    /// What a `base_version` is judged by.
    var run: VersionRun { VersionRun(version: version, base: runBase, lastWriter: lastWriter) }

    /// Whether a writer who saw `baseVersion` may write.
    func accepts(baseVersion: Int64?, from writer: Writer) -> Bool {
        run.verdict(on: baseVersion, from: writer) == .fits
    }

    /// Whether a user is told of the entity: what is private exists for its creator alone.
    func isVisible(to user: UUID, _ visibility: Visibility) -> Bool {
        visibility == .organization || owner == user
    }

    /// The state after one more write.
    func written(_ document: [UInt8]?, isDeleted: Bool, by writer: Writer) -> EntityState {
        var next = self
        next.document = document
        next.isUnreadable = false
        next.isDeleted = isDeleted
        next.version = version + 1
        next.etag = nil
        if writer != lastWriter { next.runBase = version }
        next.lastWriter = writer
        return next
    }
}

/// The entities of one organization that a group of pushes touches: as loaded, then as the plans leave them, so that
/// each push sees what those before it in the group did.
public struct EntityTable: Sendable {
    private struct Slot {
        let key: EntityKey
        var state: EntityState
        /// Ordinal of the last write: the feed's order within the group.
        var lastWrite: Int?
    }

    private var slots: [Slot] = []
    /// Where in `slots` an entity is.
    private var places: [EntityKey: Int] = [:]
    private var writeCount = 0

    /// An empty table.
    public init() {}

    /// An entity as it stands now; nil when it never existed.
    public subscript(key: EntityKey) -> EntityState? { places[key].map { slots[$0].state } }

    /// Takes in a row of the database.
    public mutating func load(_ key: EntityKey, _ state: EntityState) {
        set(key, state, lastWrite: nil)
    }

    /// Notes a write.
    public mutating func write(_ key: EntityKey, _ state: EntityState) {
        writeCount += 1
        set(key, state, lastWrite: writeCount)
    }

    private mutating func set(_ key: EntityKey, _ state: EntityState, lastWrite: Int?) {
        let slot = Slot(key: key, state: state, lastWrite: lastWrite)
        if let place = places[key] {
            slots[place] = slot
        } else {
            places[key] = slots.count
            slots.append(slot)
        }
    }

    /// What the group writes, in the order of execution, once per entity.
    public var writes: [(key: EntityKey, state: EntityState)] {
        let written = slots.filter { $0.lastWrite != nil }
        return written.sorted { ($0.lastWrite ?? 0) < ($1.lastWrite ?? 0) }.map { ($0.key, $0.state) }
    }
}
