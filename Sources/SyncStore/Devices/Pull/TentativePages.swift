import Foundation
import Postgres
import SyncModel

/// What pulls have assigned and no device has confirmed.
struct TentativePages: Sendable {
    /// Outstanding pages of a device that are kept.
    static let limit: Int64 = 4
    /// Tries at a page's number that another pull takes meanwhile.
    private static let attempts = 5

    let pool: Pool

    /// A device of a user of an organization.
    struct Key: Sendable {
        let organization: UUID
        let user: UUID
        let device: UUID

        var parameters: Parameters {
            var parameters = Parameters()
            parameters.add(organization)
            parameters.add(user)
            parameters.add(device)
            return parameters
        }
    }

    /// What tells where the page of a cursor stands; none where the cursor has none.
    static func look(at cursor: FeedCursor?, of device: Key) -> [Query] {
        guard let cursor, cursor.page > 0 else { return [] }
        return [Query(PullStatements.pages, device.parameters)]
    }

    /// Where the page of a cursor stands, from what ``look(at:of:)`` has found.
    static func standing(of cursor: FeedCursor?, _ found: ArraySlice<Rows>) throws -> PageStanding {
        guard let cursor, let rows = found.first else { return .done }
        return PageStanding(of: cursor.page, among: try pages(rows))
    }

    private static func pages(_ rows: Rows) throws -> [(page: Int64, isOutstanding: Bool)] {
        try (0..<rows.count).map { (try rows.int64($0, 0), try rows.bool($0, 1)) }
    }

    /// Makes what a page has assigned the device's own.
    ///
    /// - Returns: where the page stood, for another pull may have been faster.
    func confirm(_ page: Int64, of device: Key) async throws -> PageStanding {
        var key = device.parameters
        key.add(page)
        return try await pool.transaction { [key] connection in
            let locked = try await connection.run(Query(PullStatements.lockPages, device.parameters))
            let standing = PageStanding(of: page, among: try Self.pages(locked))
            guard standing == .outstanding else { return standing }
            _ = try await connection.run([
                Query(PullStatements.confirm, key), Query(PullStatements.mark, key),
                Query(PullStatements.dropOthers, key),
            ])
            return standing
        }
    }

    /// Keeps what a page has assigned until it is confirmed, or too many others come.
    ///
    /// - Returns: the page's number.
    /// - Throws: `organization_unknown` for one that was taken away a moment ago.
    func keep(_ assignments: [PullPlanner.Assignment], of device: Key) async throws -> Int64 {
        var page = device.parameters
        page.add(assignments.map(\.id.entityType))
        page.add(assignments.map(\.id.number))
        page.add(assignments.map(\.entity.text))
        page.add(assignments.map(\.entity.isInteger))
        var keep = device.parameters
        keep.add(Self.limit)
        var organization = Parameters()
        organization.add(device.organization)
        for _ in 0..<Self.attempts {
            let results = try await pool.run([
                Query(PullStatements.keepPage, page), Query(PullStatements.dropPages, keep),
                Query(PullStatements.organization, organization),
            ])
            if results[0].count > 0 { return try results[0].int64(0, 0) }
            guard results[2].count > 0, try results[2].string(0, 0) == OrganizationStatus.active.rawValue else {
                throw Problem(.organizationUnknown, "the organization takes no devices")
            }
        }
        throw StoreFailure.overloaded("the device pulls several times at once")
    }
}
