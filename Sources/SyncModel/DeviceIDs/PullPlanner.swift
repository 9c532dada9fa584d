/// Translates the ids on a page of the feed into local ids, which are the device's own numbers of entities.
///
/// The planner decides which entities the page refers to, which of these entities get a local id, and which counters
/// the device has after it has applied the page.
///
/// The caller adds each change in the feed's order, and then the local ids that the device already has. Then the caller
/// assigns local ids to the entities that need a local id (``NamedType/assignees``), and writes the page.
public struct PullPlanner: Sendable {
    /// A reference to an entity on the page. The type of the entity has local ids.
    public struct Name: Sendable, Hashable {
        /// The index in ``types``.
        public let type: Int
        /// The index among the entities of the type.
        public let entity: Int
    }

    /// The entities on the page that belong to one type with local ids.
    public struct NamedType: Sendable {
        public let name: String
        /// The ids of the entities, in order of appearance and without duplicates.
        public fileprivate(set) var ids: [ServerID] = []
        /// The local id of each entity in ``ids``; nil for an entity without a local id.
        public fileprivate(set) var localIDs: [Int64?] = []
        /// The indices of the entities that get a local id, in the order of assignment.
        public fileprivate(set) var assignees: [Int] = []
        fileprivate var places: [ByteExactString: Int] = [:]
    }

    /// A local id that a page assigns to an entity.
    public struct Assignment: Sendable, Hashable {
        /// The local id.
        public let id: LocalID
        public let entity: ServerID

        public init(id: LocalID, entity: ServerID) {
            self.id = id
            self.entity = entity
        }
    }

    private struct Entry {
        let name: Name?
        let isDeleted: Bool
    }

    /// The entities of types with local ids, by type.
    public private(set) var types: [NamedType] = []
    /// The assignments, in the order of assignment.
    public private(set) var assignments: [Assignment] = []
    private var places: [ByteExactString: Int] = [:]
    private var entries: [Entry] = []
    private var targets: [Name] = []
    private let counters: [ByteExactString: Int64?]
    /// For each type, the highest local id on the page among the local ids that the device already had.
    private var shown: [ByteExactString: Int64] = [:]
    /// The next local id that the device would assign, by type.
    ///
    /// Only types for which the local ids in use were read are included.
    private var starts: [ByteExactString: Int64?] = [:]

    /// - Parameter counters: the counters that the device sent.
    public init(counters: [ByteExactString: Int64?]) {
        self.counters = counters
    }

    // MARK: - The named entities

    /// Adds an entity of a type with local ids, if the entity was not added before.
    public mutating func name(_ id: ServerID, of type: String) -> Name {
        let number = place(of: type)
        if let entity = types[number].places[id.text] { return Name(type: number, entity: entity) }
        let entity = types[number].ids.count
        types[number].ids.append(id)
        types[number].localIDs.append(nil)
        types[number].places[id.text] = entity
        return Name(type: number, entity: entity)
    }

    private mutating func place(of type: String) -> Int {
        if let place = places[type] { return place }
        types.append(NamedType(name: type))
        places[type] = types.count - 1
        return types.count - 1
    }

    /// Records that the page contains a local id of the device.
    ///
    /// The entity with this local id need not be added with ``name(_:of:)``.
    public mutating func recordLocalID(_ number: Int64, of type: String) {
        if let highest = shown[type], highest >= number { return }
        shown[type] = number
    }

    /// Adds a change.
    ///
    /// - Parameters:
    ///   - name: the changed entity; nil if the entity's type has no local ids, or if the entity needs no local id.
    ///   - targets: the entities to which the document's relations refer, in order. Only entities of types with local
    ///     ids are included.
    public mutating func add(_ name: Name?, isDeleted: Bool, targets: [Name] = []) {
        entries.append(Entry(name: name, isDeleted: isDeleted))
        self.targets += targets
    }

    /// Records local ids that the entities already have on the device.
    ///
    /// If an entity has several local ids, the lowest local id is used.
    ///
    /// - Parameter places: for each number, the index of its entity among the entities of all types, in the order of
    ///   ``types``.
    public mutating func addLocalIDs(_ numbers: [Int64], at places: [Int64]) {
        var starts: [Int] = []
        for type in types { starts.append((starts.last ?? 0) + type.ids.count) }
        var type = 0
        for (number, place) in zip(numbers, places) {
            // the places are usually ordered by type
            if type < starts.count, place < (type > 0 ? starts[type - 1] : 0) { type = 0 }
            while type < starts.count, place >= starts[type] { type += 1 }
            guard type < starts.count, place >= 0 else { return }
            let entity = Int(place) - (type > 0 ? starts[type - 1] : 0)
            types[type].localIDs[entity] = min(number, types[type].localIDs[entity] ?? number)
        }
    }

    /// The number of named entities.
    public var nameCount: Int { types.reduce(0) { $0 + $1.ids.count } }

    /// The named entities that have a local id on the device.
    public var known: [(type: String, id: String, number: Int64)] {
        types.flatMap { type in
            zip(type.ids, type.localIDs).compactMap { id, number in number.map { (type.name, id.text, $0) } }
        }
    }

    // MARK: - Assigning local ids

    /// Decides which entities get a local id. Call this method after all local ids of the device are known.
    ///
    /// The changed entities come first, in the feed's order. Then come the entities in relations, in order of
    /// appearance. Entities in relations need local ids because their own changes may be on a later page. A deleted
    /// entity gets no local id.
    public mutating func chooseAssignees() {
        var seen: Set<Name> = []
        let changed = entries.lazy.filter { !$0.isDeleted }.compactMap(\.name)
        for name in Array(changed) + targets where types[name.type].localIDs[name.entity] == nil {
            if seen.insert(name).inserted { types[name.type].assignees.append(name.entity) }
        }
    }

    public var hasAssignees: Bool { types.contains { !$0.assignees.isEmpty } }

    /// The types for which the caller must look up the local ids in use.
    ///
    /// These are the types with ``NamedType/assignees``, and the types for which the device sent no counter.
    public var open: [(type: String, base: Int64?, count: Int)] {
        answered.compactMap { type in
            let count = places[type].map { types[$0].assignees.count } ?? 0
            let base = counter(of: type)
            return count > 0 || base == nil ? (type, base, count) : nil
        }
    }

    /// Assigns local ids.
    ///
    /// - Parameters:
    ///   - free: for each ``open`` type, the local ids that are not in use.
    ///   - rivals: the earlier pages that the device has not confirmed.
    /// - Throws: `validation_failed` if a type has too few local ids left.
    public mutating func assign(
        _ free: [ByteExactString: FreeLocalIDs],
        _ rivals: UnconfirmedPages = UnconfirmedPages()
    ) throws(Problem) {
        for place in types.indices {
            let type = types[place]
            let free = free[type.name] ?? FreeLocalIDs(from: counter(of: type.name), highest: nil)
            guard let numbers = free.avoiding(rivals.given(type.name)).first(type.assignees.count) else {
                throw Self.isFull(type)
            }
            var (next, used) = (numbers.startIndex, Set<Int64>())
            for entity in type.assignees {
                // if an unconfirmed page assigned a local id to this entity, the local id is used again, because no
                // other entity may get it
                let own = rivals.given(type.name, to: type.ids[entity]).first { number in
                    number < numbers[next] && free.contains(number) && !used.contains(number)
                }
                let number = own ?? numbers[next]
                if own == nil { next += 1 }
                used.insert(number)
                setLocalID(number, of: entity, at: place)
            }
        }
        starts = free.mapValues(\.start)
    }

    private mutating func setLocalID(_ number: Int64, of entity: Int, at place: Int) {
        types[place].localIDs[entity] = number
        let id = LocalID(entityType: types[place].name, number: number)
        assignments.append(Assignment(id: id, entity: types[place].ids[entity]))
    }

    private static func isFull(_ type: NamedType) -> Problem {
        let detail =
            "'\(type.name)' has too few local ids left for the changed entities: \(type.assignees.count) are needed, "
            + "and 64-bit integers end at \(Int64.max); continue from a lower free local id"
        let pointer = PullRequest.pointer(toCounterOf: type.name)
        return Problem(.validationFailed, pointer: pointer, rule: Rule.range, detail)
    }

    // MARK: - The page

    public func number(of name: Name) -> Int64? { types[name.type].localIDs[name.entity] }

    /// Whether the page contains the change with this index, in the order of the calls of
    /// ``add(_:isDeleted:targets:)``.
    ///
    /// The page does not contain the deletion of an entity that the device never had.
    public func isShown(_ change: Int) -> Bool {
        guard let name = entries[change].name, entries[change].isDeleted else { return true }
        return number(of: name) != nil
    }

    /// The device's counters after it has applied the page.
    ///
    /// The result has each type for which the device sent a counter, and each type with a local id on the page. A
    /// counter is nil if no local id is left.
    public var nextLocalIDs: [(type: String, next: Int64?)] {
        answered.map { type in
            guard let start = counter(of: type) ?? starts[type] ?? nil else { return (type, nil) }
            let numbers = places[type].map { types[$0].localIDs.lazy.compactMap(\.self) }
            guard let highest = [numbers?.max(), shown[type]].compactMap(\.self).max(), highest >= start else {
                return (type, start)
            }
            return (type, highest == .max ? nil : highest + 1)
        }
    }

    /// The types with counters in the answer, sorted by name.
    private var answered: [String] {
        let named = types.lazy.filter { type in
            !type.assignees.isEmpty || type.localIDs.contains { $0 != nil }
        }
        return Set(counters.keys).union(named.map { ByteExactString($0.name) }).union(shown.keys).sorted().map(\.string)
    }

    private func counter(of type: String) -> Int64? { counters[type] ?? nil }
}
