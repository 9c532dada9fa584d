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
