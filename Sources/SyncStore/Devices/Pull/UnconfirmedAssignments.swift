import JSONText
import Postgres
import SyncModel

/// The assignments of pulls that devices have not confirmed yet. A page with such assignments is outstanding.
struct UnconfirmedAssignments: Sendable {
    /// The maximum number of outstanding pages of a device.
    ///
    /// If the device's state changes between pulls, each pull stores a new page. Therefore this value is also the
    /// number of consecutive pulls whose responses can then be lost.
    static let limit: Int64 = 8
    /// The number of attempts to store a page while concurrent pulls of the device store pages.
    static let attempts = 5
    /// The maximum number of local ids that one statement makes permanent.
    static let confirmedAtOnce = 10_000

    let pool: Pool

    /// The known pages of a device.
    struct Known: Sendable {
        /// The pages, and whether each is outstanding. A page that is not outstanding is the last confirmed page.
        var pages: [(page: Int64, isOutstanding: Bool)]

        var nextNumber: Int64 { (pages.map(\.page).max() ?? 0) + 1 }
        var areOutstanding: Bool { pages.contains { $0.isOutstanding } }

        func state(of page: Int64) -> PageState { PageState(of: page, among: pages) }

        /// Returns the state after a page was confirmed.
        static func confirmed(_ page: Int64) -> Known { Known(pages: [(page, false)]) }
    }

    static func find(of device: DeviceKey) -> Query {
        PullStatements.pages(organization: device.lane.organization, user: device.lane.user, device: device.id)
    }

    static func known(_ rows: Rows) throws -> Known { Known(pages: try pages(rows)) }

    private static func pages(_ rows: Rows) throws -> [(page: Int64, isOutstanding: Bool)] {
        try rows.read { (try $0.read("page", as: Int64.self), try $0.read("is_outstanding", as: Bool.self)) }
    }

    private static func count(of page: Int64, _ rows: Rows) throws -> Int {
        for var row in rows where try row.read("page", as: Int64.self) == page {
            row.skip("is_outstanding")
            return try row.read("given")
        }
        return 0
    }

    /// Makes a page's assignments permanent.
    ///
    /// - Returns: the page's state before the call, because a concurrent pull may already have confirmed the page.
    func confirm(_ page: Int64, of device: DeviceKey) async throws -> PageState {
        let key = Parameters(of: device, page)
        return try await pool.transaction { connection in
            let locked = try await connection.run(
                PullStatements.lockPages(
                    organization: device.lane.organization,
                    user: device.lane.user,
                    device: device.id
                )
            )
            let state = PageState(of: page, among: try Self.pages(locked))
            guard state == .outstanding else { return state }
            let given = try Self.count(of: page, locked)
            for start in stride(from: 1, through: given, by: Self.confirmedAtOnce) {
                let end = min(given, start + Self.confirmedAtOnce - 1)
                let part = Parameters(of: device, page, Int32(start), Int32(end))
                let taken = try await connection.run(Query(PullStatements.confirm, part)).affected
                if taken <= end - start { _ = try await connection.run(Query(PullStatements.confirmSecond, part)) }
            }
            _ = try await connection.run([Query(PullStatements.mark, key), Query(PullStatements.dropOthers, key)])
            return state
        }
    }

    // MARK: - New pages

    /// A page to be stored.
    struct New {
        let number: Int64
        /// The page whose cursor the device sent to get the new page; 0 if there is no such page.
        let base: Int64
        let counters: [ByteExactString: Int64]
        let assignments: [PullPlanner.Assignment]
    }

    /// Returns the unconfirmed pages whose assignments a new page must respect.
    func rivals(_ base: Int64, _ counters: [ByteExactString: Int64], of device: DeviceKey) async throws
        -> UnconfirmedPages
    {
        let rows = try await pool.run([
            PullStatements.rivals(organization: device.lane.organization, user: device.lane.user, device: device.id)
        ])[0]
        let pages = try rows.read { row in
            let (number, base) = (try row.read("page", as: Int64.self), try row.read("since_page", as: Int64.self))
            let counters = try Self.counters(row.read("counters"))
            let (types, numbers) = (
                try row.read("entity_types", as: [String].self), try row.read("local_ids", as: [Int64].self)
            )
            let (ids, areIntegers) = (
                try row.read("server_ids", as: [String].self), try row.read("are_integers", as: [Bool].self)
            )
            return UnconfirmedPages.Page(
                number: number,
                base: base,
                counters: counters,
                assignments: numbers.indices.map { place in
                    PullPlanner.Assignment(
                        id: LocalID(entityType: types[place], number: numbers[place]),
                        entity: ServerID(text: ids[place], isInteger: areIntegers[place])
                    )
                }
            )
        }
        return UnconfirmedPages(of: pages, base: base, counters: counters)
    }

    private static func counters(_ json: [UInt8]) throws -> [ByteExactString: Int64] {
        var counters: [ByteExactString: Int64] = [:]
        guard let members = try JSONTree(parsing: json).root.members else { return [:] }
        for (name, value) in members { counters[name.string] = value.int64 }
        return counters
    }

    private static func json(_ counters: [ByteExactString: Int64]) -> String {
        var writer = JSONWriter()
        writer.beginObject()
        for (type, number) in counters.sorted(by: { $0.key < $1.key }) {
            writer.name(type)
            writer.int(number)
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Stores a page's assignments until the page is confirmed or too many newer pages are stored.
    ///
    /// - Returns: whether the page's number was free. If it was not free, a concurrent pull stored its page first. The
    ///   caller must then read that page, and plan its own page again.
    /// - Throws: `organization_unknown` if the organization was just deleted.
    func keep(_ new: New, superseding superseded: [Int64], of device: DeviceKey) async throws -> Bool {
        let organization = Parameters(of: device.lane.organization)
        let results = try await pool.run([
            PullStatements.keepPage(
                organization: device.lane.organization,
                user: device.lane.user,
                device: device.id,
                page: new.number,
                since_page: new.base,
                ranges: Self.json(new.counters),
                entity_types: new.assignments.map(\.id.entityType),
                local_ids: new.assignments.map(\.id.number),
                server_ids: new.assignments.map(\.entity.text),
                are_integers: new.assignments.map(\.entity.isInteger)
            ),
            PullStatements.dropPages(
                organization: device.lane.organization,
                user: device.lane.user,
                device: device.id,
                limit: Self.limit
            ),
            Query(PullStatements.organization, organization),
        ])
        guard results[0].affected > 0 else {
            guard
                try results[2].read({ try $0.read("status", as: String.self) }) == [OrganizationStatus.active.rawValue]
            else {
                throw Problem(.organizationUnknown, "the organization does not accept devices")
            }
            return false
        }
        // if the process ends before this statement, two pages may assign one local id to different entities; a push
        // that uses such a local id is refused, and the device pulls again
        if !superseded.isEmpty {
            _ = try await pool.run([
                PullStatements.supersede(
                    organization: device.lane.organization,
                    user: device.lane.user,
                    device: device.id,
                    pages: superseded
                )
            ])
        }
        return true
    }
}
