/// The assignments of pages that the device has not confirmed.
///
/// A device repeats a pull whose response was lost, and an old pull may arrive again. So there may be several such
/// pages, of which the device has applied at most one. If the device may have applied a page, a new page must not
/// assign the same number to another entity. Otherwise a push that uses the number could refer to either entity.
public struct UnconfirmedPages: Sendable {
    public struct Page: Sendable {
        public let number: Int64
        /// The earlier page from whose cursor the device pulled this page; 0 without an earlier page.
        public let base: Int64
        /// The device's counters when it pulled.
        ///
        /// The device applies the page only while its counters are the same.
        public let counters: [ByteExactString: Int64]
        public let assignments: [PullPlanner.Assignment]

        public init(
            number: Int64,
            base: Int64,
            counters: [ByteExactString: Int64],
            assignments: [PullPlanner.Assignment]
        ) {
            self.number = number
            self.base = base
            self.counters = counters
            self.assignments = assignments
        }
    }

    /// Pages that the device cannot have applied, or from whose cursor it has already pulled again.
    ///
    /// Their assignments are not valid unless the device pulls from their cursor later.
    public private(set) var superseded: [Int64] = []
    /// Pages that the device pulled from the same cursor and with the same counters.
    private var equals: [Page] = []
    private var owners: [ByteExactString: [Int64: ByteExactString]] = [:]
    private var numbers: [ByteExactString: [ByteExactString: [Int64]]] = [:]

    public init() {}

    /// Compares a pull with the unconfirmed pages.
    ///
    /// - Parameters:
    ///   - base: the page from whose cursor the device pulls; 0 without such a page.
    ///   - counters: the device's counters.
    public init(of pages: [Page], base: Int64, counters: [ByteExactString: Int64]) {
        for page in pages {
            if Self.isOlder(page, base, counters) {
                superseded.append(page.number)
                continue
            }
            if page.base == base, page.counters == counters { equals.append(page) }
            for assignment in page.assignments {
                let (type, number) = (assignment.id.entityType, assignment.id.number)
                owners[type, default: [:]][number] = ByteExactString(assignment.entity.text)
                numbers[type, default: [:]][assignment.entity.text, default: []].append(number)
            }
        }
    }

    /// Whether a page is older than the state that the device's request shows.
    ///
    /// Counters and page numbers only grow. A device with higher numbers has not applied the page, or has continued
    /// from it. A device with lower numbers sent this request before the page, or was restored from a backup.
    private static func isOlder(_ page: Page, _ base: Int64, _ counters: [ByteExactString: Int64]) -> Bool {
        if page.base != base { return page.base < base }
        let common = Set(page.counters.keys).intersection(counters.keys)
        if common.contains(where: { page.counters[$0] ?? 0 > counters[$0] ?? 0 }) { return false }
        return common.contains { page.counters[$0] ?? 0 < counters[$0] ?? 0 }
    }

    /// The page that made the same assignments from the same cursor and counters; nil without such a page.
    ///
    /// Such a page need not be stored twice.
    public func page(with assignments: [PullPlanner.Assignment]) -> Int64? {
        let wanted = Set(assignments)
        return equals.first { Set($0.assignments) == wanted }?.number
    }

    /// Numbers of a type that unconfirmed pages assigned, ascending.
    ///
    /// No other entity may get these numbers.
    func given(_ type: String) -> [Int64] { owners[type]?.keys.sorted() ?? [] }

    /// Numbers that unconfirmed pages assigned to an entity, ascending.
    func given(_ type: String, to entity: ServerID) -> [Int64] { numbers[type]?[entity.text]?.sorted() ?? [] }
}

/// The state of a page's assignments of device ids when the device pulls from the page's cursor.
///
/// Until then, the assignments are tentative.
public enum PageState: Sendable, Hashable {
    /// The pull confirms the page's assignments.
    case outstanding
    /// This page or a later page was confirmed before, so there is nothing to do.
    case done
    /// The page's assignments are not stored any more, because the device repeated too many pulls in between.
    case lost

    /// - Parameters:
    ///   - page: the page's number; 0 without a page.
    ///   - pages: the known pages of the device. The page that is not outstanding is the last confirmed page.
    public init(of page: Int64, among pages: [(page: Int64, isOutstanding: Bool)]) {
        guard page > 0 else {
            self = .done
            return
        }
        if let known = pages.first(where: { $0.page == page }) {
            self = known.isOutstanding ? .outstanding : .done
        } else {
            // a device that was restored from a backup has an old cursor
            self = pages.contains { !$0.isOutstanding && $0.page > page } ? .done : .lost
        }
    }
}
