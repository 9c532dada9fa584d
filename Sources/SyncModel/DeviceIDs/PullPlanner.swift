/// Puts a page of the feed into a device's own ids: which entities it names, which of them get a number, and where the
/// device's counters are to be once it has applied the page.
///
/// In turn: each change is added, in the feed's order; numbers that the device has are noted; what is ``wanted`` gets
/// numbers; then the page can be written.
public struct PullPlanner: Sendable {
    /// An entity of a type with device ids that the page names.
    public struct Name: Sendable, Hashable {
        /// The type's place among ``types``.
        public let type: Int
        /// The entity's place among those of its type.
        public let entity: Int
    }

    /// What the page names of one type with device ids.
    public struct NamedType: Sendable {
        /// The type's name.
        public let name: String
        /// Each entity once, in order of appearance.
        public fileprivate(set) var ids: [ServerID] = []
        /// The device's numbers of these entities; nil where it has none.
        public fileprivate(set) var numbers: [Int64?] = []
        /// Places of those that are to get a number, in the order in which they get them.
        public fileprivate(set) var wanted: [Int] = []
        fileprivate var places: [String: Int] = [:]
    }

    /// A number that a page gives to an entity.
    public struct Assignment: Sendable, Hashable {
        /// The device's own id.
        public let id: LocalID
        /// The entity.
        public let entity: ServerID

        /// Creates the value.
        public init(id: LocalID, entity: ServerID) {
            self.id = id
            self.entity = entity
        }
    }

    private struct Entry {
        let name: Name?
        let isDeleted: Bool
    }

    /// What the page names, by type.
    public private(set) var types: [NamedType] = []
    /// What was assigned, in order.
    public private(set) var assignments: [Assignment] = []
    private var places: [String: Int] = [:]
    private var entries: [Entry] = []
    private var targets: [Name] = []
    private let counters: [String: Int64?]
    /// The highest number of each type that was known before and that the page shows.
    private var shown: [String: Int64] = [:]
    /// Where types whose numbers in use were looked at are counted on.
    private var starts: [String: Int64?] = [:]

    /// A plan of a page without changes.
    ///
    /// - Parameter counters: as the device has sent them.
    public init(counters: [String: Int64?]) {
        self.counters = counters
    }

    // MARK: - What the page names

    /// The place of an entity of a type with device ids.
    public mutating func name(_ id: ServerID, of type: String) -> Name {
        let number = place(of: type)
        if let entity = types[number].places[id.text] { return Name(type: number, entity: entity) }
        let entity = types[number].ids.count
        types[number].ids.append(id)
        types[number].numbers.append(nil)
        types[number].places[id.text] = entity
        return Name(type: number, entity: entity)
    }

    private mutating func place(of type: String) -> Int {
        if let place = places[type] { return place }
        types.append(NamedType(name: type))
        places[type] = types.count - 1
        return types.count - 1
    }

    /// Notes that the page shows a number that the device has, of an entity that need not be named here.
    public mutating func show(_ number: Int64, of type: String) {
        if let highest = shown[type], highest >= number { return }
        shown[type] = number
    }

    /// Adds a change.
    ///
    /// - Parameters:
    ///   - name: nil for an entity of a type without device ids, and for one that need not be named.
    ///   - targets: what its document's relations to types with device ids lead to, in order.
    public mutating func add(_ name: Name?, isDeleted: Bool, targets: [Name] = []) {
        entries.append(Entry(name: name, isDeleted: isDeleted))
        self.targets += targets
    }

    /// Notes numbers that the device has. Of several of one entity it is the lowest.
    ///
    /// - Parameter places: of the entities, counted through all types.
    public mutating func know(_ numbers: [Int64], at places: [Int64]) {
        var starts: [Int] = []
        for type in types { starts.append((starts.last ?? 0) + type.ids.count) }
        var type = 0
        for (number, place) in zip(numbers, places) {
            // they come type by type
            if type < starts.count, place < (type > 0 ? starts[type - 1] : 0) { type = 0 }
            while type < starts.count, place >= starts[type] { type += 1 }
            guard type < starts.count, place >= 0 else { return }
            let entity = Int(place) - (type > 0 ? starts[type - 1] : 0)
            types[type].numbers[entity] = min(number, types[type].numbers[entity] ?? number)
        }
    }

    /// How many entities are named.
    public var nameCount: Int { types.reduce(0) { $0 + $1.ids.count } }

    /// Of what is named, the numbers that the device has.
    public var known: [(type: String, id: String, number: Int64)] {
        types.flatMap { type in
            zip(type.ids, type.numbers).compactMap { id, number in number.map { (type.name, id.text, $0) } }
        }
    }

    // MARK: - What gets a number

    /// Decides which entities get a number, once all that the device has are noted: those that changed, in the feed's
    /// order, then what relations lead to, in order of appearance, as its change may come later. What is deleted gets
    /// none for itself.
    public mutating func want() {
        var seen: Set<Name> = []
        let changed = entries.lazy.filter { !$0.isDeleted }.compactMap(\.name)
        for name in Array(changed) + targets where types[name.type].numbers[name.entity] == nil {
            if seen.insert(name).inserted { types[name.type].wanted.append(name.entity) }
        }
    }

    /// Whether anything gets a number.
    public var isWanting: Bool { types.contains { !$0.wanted.isEmpty } }

    /// Types whose numbers in use have to be looked at: where some are wanted, and where the device has not said where it
    /// counts on.
    public var open: [(type: String, base: Int64?, wanted: Int)] {
        answered.compactMap { type in
            let wanted = places[type].map { types[$0].wanted.count } ?? 0
            let base = counter(of: type)
            return wanted > 0 || base == nil ? (type, base, wanted) : nil
        }
    }

    /// Gives numbers.
    ///
    /// - Parameters:
    ///   - free: what is known of each type that is ``open``.
    ///   - rivals: pages that were pulled before and are not confirmed.
    /// - Throws: `validation_failed` where a type has not enough numbers left.
    public mutating func assign(_ free: [String: FreeNumbers], _ rivals: UnconfirmedPages = UnconfirmedPages())
        throws(Problem)
    {
        for place in types.indices {
            let type = types[place]
            let free = free[type.name] ?? FreeNumbers(from: counter(of: type.name), highest: nil)
            guard let numbers = free.avoiding(rivals.given(type.name)).first(type.wanted.count) else {
                throw Self.isFull(type)
            }
            var (next, used) = (numbers.startIndex, Set<Int64>())
            for entity in type.wanted {
                // a number that the entity was given before is no other's
                let own = rivals.given(type.name, to: type.ids[entity]).first { number in
                    number < numbers[next] && free.contains(number) && !used.contains(number)
                }
                let number = own ?? numbers[next]
                if own == nil { next += 1 }
                used.insert(number)
                give(number, to: entity, of: place)
            }
        }
        starts = free.mapValues(\.start)
    }

    private mutating func give(_ number: Int64, to entity: Int, of place: Int) {
        types[place].numbers[entity] = number
        let id = LocalID(entityType: types[place].name, number: number)
        assignments.append(Assignment(id: id, entity: types[place].ids[entity]))
    }

    private static func isFull(_ type: NamedType) -> Problem {
        let detail =
            "'\(type.name)' has not enough numbers left for what changed: \(type.wanted.count) are needed, and "
            + "64-bit integers end at \(Int64.max); count on from a lower one that is free"
        let pointer = PullRequest.pointer(toCounterOf: type.name)
        return Problem(.validationFailed, pointer: pointer, rule: Rule.range, detail)
    }

    // MARK: - What the page shows

    /// The device's number of an entity.
    public func number(of name: Name) -> Int64? { types[name.type].numbers[name.entity] }

    /// Whether a change is shown: what was deleted before the device ever had it is not.
    public func isShown(_ change: Int) -> Bool {
        guard let name = entries[change].name, entries[change].isDeleted else { return true }
        return number(of: name) != nil
    }

    /// Where the device's counters are to be once it has applied the page: of each type that it told, and of each of
    /// which the page shows a number. Nil where there is no number left.
    public var nextLocalIDs: [(type: String, next: Int64?)] {
        answered.map { type in
            guard let start = counter(of: type) ?? starts[type] ?? nil else { return (type, nil) }
            let numbers = places[type].map { types[$0].numbers.lazy.compactMap(\.self) }
            guard let highest = [numbers?.max(), shown[type]].compactMap(\.self).max(), highest >= start else {
                return (type, start)
            }
            return (type, highest == .max ? nil : highest + 1)
        }
    }

    /// Types whose counters are answered, by name.
    private var answered: [String] {
        let named = types.lazy.filter { type in
            !type.wanted.isEmpty || type.numbers.contains { $0 != nil }
        }
        return Set(counters.keys).union(named.map(\.name)).union(shown.keys).sorted()
    }

    private func counter(of type: String) -> Int64? { counters[type] ?? nil }
}
