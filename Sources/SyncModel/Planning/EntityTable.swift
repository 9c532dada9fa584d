/// The entities of one organization that a group of pushes touches.
///
/// First as loaded, then as the plans leave them, so that each push sees the effects of those before it in the group.
public struct EntityTable: Sendable {
    private struct Slot {
        let key: EntityKey
        var state: EntityState
        /// Ordinal of the last write: the feed's order within the group.
        var lastWrite: Int?
    }

    private var slots: [Slot] = []
    /// The index in `slots`.
    private var places: [EntityKey: Int] = [:]
    private var writeCount = 0
    /// Bytes of the largest document that was loaded.
    private(set) var largestDocument = 0
    /// Whether any document was not read because of the read limit.
    private(set) var hasUnread = false

    public init() {}

    /// Makes room for entities beyond those that are there.
    mutating func reserve(_ more: Int) { places.reserveCapacity(places.count + more) }

    /// The current state of an entity; nil when it never existed.
    public subscript(key: EntityKey) -> EntityState? { places[key].map { slots[$0].state } }

    /// Adds a row of the database.
    public mutating func load(_ key: EntityKey, _ state: EntityState) {
        largestDocument = max(largestDocument, state.documentBytes)
        if state.unreadBytes > 0 { hasUnread = true }
        set(key, state, lastWrite: nil)
    }

    public mutating func write(_ key: EntityKey, _ state: EntityState) {
        writeCount += 1
        set(key, state, lastWrite: writeCount)
    }

    /// Replaces the text of an entity's document. That is no write by itself.
    mutating func setDocument(_ document: [UInt8], of key: EntityKey) {
        guard let place = places[key] else { return }
        slots[place].state.document = document
    }

    private mutating func set(_ key: EntityKey, _ state: EntityState, lastWrite: Int?) {
        let slot = Slot(key: key, state: state, lastWrite: lastWrite)
        // one look-up for a new entity, as most are
        if let place = places.updateValue(slots.count, forKey: key) {
            places[key] = place
            slots[place] = slot
        } else {
            slots.append(slot)
        }
    }

    /// The writes of the group, in the order of execution, one for each entity.
    public var writes: [(key: EntityKey, state: EntityState)] {
        let written = slots.indices.filter { slots[$0].lastWrite != nil }
        let inOrder = written.sorted { (slots[$0].lastWrite ?? 0) < (slots[$1].lastWrite ?? 0) }
        return inOrder.map { (slots[$0].key, slots[$0].state) }
    }
}
