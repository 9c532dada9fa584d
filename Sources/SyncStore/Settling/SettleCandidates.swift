import FoundationEssentials
import Postgres
import SyncModel

/// Finds the mutations of a bulk request, a page at a time.
///
/// The mutations are sorted by user. A user's mutations are in lane order or its reverse. Every page reads a limited
/// number of open mutations, independent of the filter.
struct SettleCandidates {
    /// The maximum number of mutations on a page.
    static let limit: Int64 = 500
    /// The maximum number of open mutations that a page reads.
    static let scan: Int64 = 50_000

    /// A position in an organization's sorted list of mutations.
    struct Place {
        var user: UUID
        var position: Int64
    }

    /// A page of mutations, by lane.
    struct Page {
        var lanes: [(user: UUID, ids: [UUID])] = []
        /// The place after which the next page begins; nil at the end.
        var next: Place?
    }

    let pool: Pool
    let organization: UUID
    let request: BulkRequest
    let isReversed: Bool

    /// Returns the page after a place; the first page for nil.
    func page(after place: Place?) async throws -> Page {
        // a user's mutations are adjacent, so the page can be limited to the range of one user
        let first = Place(user: request.userID ?? UUID.least, position: .min)
        let last = Place(user: request.userID ?? UUID.greatest, position: .max)
        let start = place ?? (isReversed ? last : first)
        var parameters = Parameters(of: organization, start.user, start.position)
        var bounds = parameters
        bounds.add(Self.scan)
        let edge = try await pool.runInOrder(Query(isReversed ? Self.edgeBefore : Self.edgeAfter, bounds))
        var end = try edge.read(Place.init).first
        if let user = request.userID, end?.user != user { end = nil }
        parameters.add((end ?? (isReversed ? first : last)).user)
        parameters.add((end ?? (isReversed ? first : last)).position)
        parameters.add(request.statuses.map(\.rawValue))
        parameters.add(request.entityType)
        parameters.add(request.deviceID)
        parameters.add(request.userID)
        parameters.add(request.ids ?? [])
        parameters.add(request.ids == nil)
        parameters.add(Self.limit)
        let rows = try await pool.runInOrder(Query(isReversed ? Self.pageBefore : Self.pageAfter, parameters))
        var page = Page(next: end)
        for var row in rows {
            let place = try Place(&row)
            if page.lanes.last?.user != place.user { page.lanes.append((place.user, [])) }
            page.lanes[page.lanes.count - 1].ids.append(try row.read("id"))
            // if the page is full, the next page begins after its last row
            if rows.count == Int(Self.limit) { page.next = place }
        }
        return page
    }

    // MARK: - Statements

    static let edgeAfter = Statement("settle_edge_after", edgeNames, edge(">", "ASC"))
    static let edgeBefore = Statement("settle_edge_before", edgeNames, edge("<", "DESC"))
    static let pageAfter = Statement("settle_page_after", pageNames, page(">", "<=", "ASC"))
    static let pageBefore = Statement("settle_page_before", pageNames, page("<", ">=", "DESC"))

    private static let edgeNames = place + ["scan"]
    private static let pageNames =
        place + ["to_user", "to_position", "statuses", "entity_type", "device", "user", "ids", "is_of_any", "limit"]
    /// The place after which a page begins.
    private static let place = ["organization", "after_user", "after_position"]

    /// Finds the last mutation that a page reads. Returns no row if there are fewer mutations than the page may read.
    private static func edge(_ behind: String, _ order: String) -> String {
        """
        SELECT x.user_id, x.position
        FROM mutations x
        WHERE x.organization_id = :organization AND (x.user_id, x.position) \(behind) (:after_user, :after_position) AND x.synced_at IS NULL
        ORDER BY x.user_id \(order), x.position \(order)
        OFFSET :scan - 1 LIMIT 1
        """
    }

    private static func page(_ behind: String, _ upTo: String, _ order: String) -> String {
        """
        SELECT x.user_id, x.position, x.id
        FROM mutations x
        WHERE x.organization_id = :organization AND (x.user_id, x.position) \(behind) (:after_user, :after_position)
            AND (x.user_id, x.position) \(upTo) (:to_user, :to_position) AND x.synced_at IS NULL
            AND x.status = ANY (:statuses::text[])
            AND (:entity_type::text IS NULL OR x.entity_type = :entity_type)
            AND (:device::uuid IS NULL OR x.device_id = :device)
            AND (:user::uuid IS NULL OR x.user_id = :user)
            AND (:is_of_any::bool OR x.id = ANY (:ids::uuid[]))
        ORDER BY x.user_id \(order), x.position \(order)
        LIMIT :limit
        """
    }

    static let statements = [edgeAfter, edgeBefore, pageAfter, pageBefore]
}

extension SettleCandidates.Place {
    /// Reads `user_id` and `position`.
    fileprivate init(_ row: inout RowReader) throws {
        self.init(user: try row.read("user_id"), position: try row.read("position"))
    }
}
