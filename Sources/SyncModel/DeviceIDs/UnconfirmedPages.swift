/// The assignments of pages that the device has not confirmed. A later pull that contains the cursor of a page confirms
/// this page (``PageState``).
///
/// There may be several unconfirmed pages, because a device repeats a pull if the response was lost, and because an old
/// pull may arrive again. The device has applied at most one of these pages. If the device may have applied a page, a
/// new page must not assign the same local id to another entity. Otherwise a push with this local id could refer to
/// either entity.
public struct UnconfirmedPages: Sendable {
    public struct Page: Sendable {
        public let number: Int64
        /// The number of the earlier page that returned the cursor with which the device pulled this page; 0 if there
        /// is no earlier page.
        public let base: Int64
        /// The device's counters at the time of the pull.
        ///
        /// The device applies the page only if its counters have not changed since.
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

    /// The pages that the device cannot have applied, or after which it has already pulled again.
    ///
    /// The assignments of these pages become valid only if the device later pulls from the cursor of such a page.
    public private(set) var superseded: [Int64] = []
    /// The pages that the device pulled from the same cursor and with the same counters as in this pull.
    private var equals: [Page] = []
    private var owners: [ByteExactString: [Int64: ByteExactString]] = [:]
    private var numbers: [ByteExactString: [ByteExactString: [Int64]]] = [:]

    public init() {}

    /// Compares a pull with the unconfirmed pages.
    ///
    /// - Parameters:
    ///   - base: the number of the page that returned the cursor of this pull; 0 if there is no such page.
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

    /// Whether a page is older than the device's state at the time of this request.
    ///
    /// Counters and page numbers only increase. If the device's counters or page number are higher than those of the
    /// page, the device has not applied the page, or has continued after it. If the device's values are lower, the
    /// device sent this request before it received the page, or was restored from a backup.
    private static func isOlder(_ page: Page, _ base: Int64, _ counters: [ByteExactString: Int64]) -> Bool {
        if page.base != base { return page.base < base }
        let common = Set(page.counters.keys).intersection(counters.keys)
        if common.contains(where: { page.counters[$0] ?? 0 > counters[$0] ?? 0 }) { return false }
        return common.contains { page.counters[$0] ?? 0 < counters[$0] ?? 0 }
    }

    /// The page that made the same assignments from the same cursor and counters; nil if there is no such page.
    ///
    /// If there is such a page, the new page need not be stored.
    public func page(with assignments: [PullPlanner.Assignment]) -> Int64? {
        let wanted = Set(assignments)
        return equals.first { Set($0.assignments) == wanted }?.number
    }

    /// The local ids of a type that unconfirmed pages assigned, in ascending order.
    ///
    /// No other entity may get these local ids.
    func given(_ type: String) -> [Int64] { owners[type]?.keys.sorted() ?? [] }

    /// The local ids that unconfirmed pages assigned to an entity, in ascending order.
    func given(_ type: String, to entity: ServerID) -> [Int64] { numbers[type]?[entity.text]?.sorted() ?? [] }
}

/// The state of a page's assignments of local ids when the device pulls from the page's cursor.
///
/// Before this pull, the assignments are tentative.
public enum PageState: Sendable, Hashable {
    /// The pull confirms the page's assignments.
    case outstanding
    /// There is nothing to do, because this page or a later page was already confirmed.
    case done
    /// The page's assignments are no longer stored, because the device repeated too many pulls since.
    case lost

    /// - Parameters:
    ///   - page: the page's number; 0 if there is no page.
    ///   - pages: the known pages of the device. A page that is not outstanding is the last confirmed page.
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
