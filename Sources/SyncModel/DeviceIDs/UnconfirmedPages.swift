/// What a device was given with pages that nobody has confirmed. A pull whose answer was lost is made again, and an old one
/// may be heard once more, so there may be several such pages, and the device has applied one of them at most. A new one
/// must not give a number to another entity than a page that may have been applied: a push that uses the number is to mean
/// one entity, whichever page the device has.
public struct UnconfirmedPages: Sendable {
    /// A page that is not confirmed.
    public struct Page: Sendable {
        /// Its number.
        public let number: Int64
        /// The page from whose cursor it was pulled; 0 for none.
        public let base: Int64
        /// Where the device counted on when it pulled; it applies the page only while it still does.
        public let counters: [String: Int64]
        /// What it gave.
        public let assignments: [PullPlanner.Assignment]

        /// Creates the value.
        public init(
            number: Int64,
            base: Int64,
            counters: [String: Int64],
            assignments: [PullPlanner.Assignment]
        ) {
            self.number = number
            self.base = base
            self.counters = counters
            self.assignments = assignments
        }
    }

    /// Pages that the device cannot have applied, or has gone behind: what they gave is void, unless their cursor comes
    /// after all.
    public private(set) var superseded: [Int64] = []
    /// Pages that were pulled in the same state of the device.
    private var equals: [Page] = []
    private var owners: [String: [Int64: String]] = [:]
    private var numbers: [String: [String: [Int64]]] = [:]

    /// No other pages.
    public init() {}

    /// Compares a pull with the pages that stand.
    ///
    /// - Parameters:
    ///   - base: the page from whose cursor the device pulls; 0 for none.
    ///   - counters: where it counts on.
    public init(of pages: [Page], base: Int64, counters: [String: Int64]) {
        for page in pages {
            if Self.isOlder(page, base, counters) {
                superseded.append(page.number)
                continue
            }
            if page.base == base, page.counters == counters { equals.append(page) }
            for assignment in page.assignments {
                let (type, number) = (assignment.id.entityType, assignment.id.number)
                owners[type, default: [:]][number] = assignment.entity.text
                numbers[type, default: [:]][assignment.entity.text, default: []].append(number)
            }
        }
    }

    /// Counters only grow, and so do pages: a device that shows higher ones has not applied the page, or has gone on from
    /// it. One that shows lower ones sent this before, or comes from a backup.
    private static func isOlder(_ page: Page, _ base: Int64, _ counters: [String: Int64]) -> Bool {
        if page.base != base { return page.base < base }
        let common = Set(page.counters.keys).intersection(counters.keys)
        if common.contains(where: { page.counters[$0] ?? 0 > counters[$0] ?? 0 }) { return false }
        return common.contains { page.counters[$0] ?? 0 < counters[$0] ?? 0 }
    }

    /// The page that gave just this in the same state: it need not be kept twice.
    public func page(with assignments: [PullPlanner.Assignment]) -> Int64? {
        let wanted = Set(assignments)
        return equals.first { Set($0.assignments) == wanted }?.number
    }

    /// Numbers of a type that were given to entities, and so to nothing else, upwards.
    func given(_ type: String) -> [Int64] { owners[type]?.keys.sorted() ?? [] }

    /// Numbers that an entity was given, upwards.
    func given(_ type: String, to entity: ServerID) -> [Int64] { numbers[type]?[entity.text]?.sorted() ?? [] }
}
