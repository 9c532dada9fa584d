package import Foundation
import Postgres
package import SyncModel
import SyncStore

/// Lists the stuck mutations, newest first, over all organizations or in one.
///
/// A page reads a bounded number of them for any filter. It may be short or empty and still have a next page.
package struct FailureList: Sendable {
    package struct Page: Sendable {
        package let mutations: [FailedMutation]
        package let next: String?
    }

    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure

    /// - Parameters:
    ///   - organization: only this one's; nil for all, and then no user is named.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the page before.
    /// - Throws: `invalid_request` for an invalid cursor, or one made with another filter.
    package func page(
        _ filter: FailureFilter,
        organization: UUID?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try FailureCursor(cursor, filter, organization)
        do {
            let queries = FailureQuery(filter, of: organization).newest(behind: start.place, limit: limit + 1)
            let results = try await pool.readByIndex(queries)
            let edge = queries.count < 2 ? nil : try results[1].read(FailurePosition.init).first
            let mutations = try await read(results[0])
            let page = mutations.prefix(limit)
            let isCut = mutations.count > limit
            let last = isCut ? page.last.map(\.place) : edge
            return Page(mutations: Array(page), next: last.map(start.next))
        } catch {
            throw failure.problem(error, doing: "list failed mutations")
        }
    }

    /// Returns the mutations at some places.
    package func mutations(
        at places: [FailureQuery.Place],
        in organization: UUID
    ) async throws(Problem) -> [FailedMutation] {
        guard !places.isEmpty else { return [] }
        do {
            let rows = try await pool.readByIndex(
                Self.byIDStatement(organization: organization, users: places.map(\.user), ids: places.map(\.id))
            )
            return try await read(rows)
        } catch {
            throw failure.problem(error, doing: "read failed mutations")
        }
    }

    static let byIDStatement = Statement(
        "stuck_by_id",
        ["organization", "users", "ids"],
        """
        SELECT \(FailedMutation.list)
        FROM unnest(:users::uuid[], :ids::uuid[]) WITH ORDINALITY AS k (user_id, id, place)
        CROSS JOIN LATERAL (
            SELECT * FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = k.user_id AND x.id = k.id
            OFFSET 0
        ) m
        WHERE \(StuckRows.are("m"))
        ORDER BY k.place
        """
    )

    /// Opens the problems; those of an organization that is locked stay closed.
    private func read(_ rows: Rows) async throws -> [FailedMutation] {
        let owners = Set(try rows.read { try $0.uuid("organization_id") })
        var seals: [UUID: Seal] = [:]
        for owner in owners {
            do { seals[owner] = try await catalog.seal(of: owner) } catch is SealError { continue }
        }
        guard owners.count == 1, let owner = owners.first, seals[owner] != nil else {
            return try await catalog.userKeys.fetchingMissingKeys { [seals] in
                try rows.readSealed { try FailedMutation(&$0, seals) }
            }
        }
        return try await catalog.opening(owner) { seal in
            try rows.readSealed { try FailedMutation(&$0, [owner: seal]) }
        }
    }
}

extension FailedMutation {
    var place: FailurePosition {
        FailurePosition(at: stuckAt, organization: lane.organization, user: lane.user, id: id)
    }

    static let list = """
        m.organization_id, m.user_id, m.id, m.device_id, m.operation, \(EntityName.list), m.status, m.error_code,
            m.error_status, m.error, m.attempt_count, m.accepted_at, m.stuck_at
        """

    /// - Parameter seals: by organization; without its seal, a mutation's problem stays sealed.
    init(_ row: inout RowReader, _ seals: [UUID: Seal]) throws {
        let lane = try row.lane()
        let id = try row.uuid("id")
        var detail: String?
        let device = try row.uuid("device_id")
        let operation: SyncModel.Operation = try row.choice("operation")
        let entity = try row.entity()
        let status: MutationStatus = try row.choice("status")
        let code = try row.string("error_code")
        let response = try row.int16("error_status")
        let error = try row.optionalBytes("error")
        if let seal = seals[lane.organization] {
            var closed: [String] = []
            let open = try LaneSeal(seal: seal.withoutKeyRefresh, user: lane.user).read(
                json: error,
                .error,
                of: id,
                &closed
            )
            detail = open.flatMap { StoredProblem($0).detail }
        }
        self.init(
            lane: lane,
            id: id,
            device: device,
            operation: operation,
            entity: entity,
            status: status,
            errorCode: code,
            responseStatus: response,
            detail: detail,
            attemptCount: try row.int16("attempt_count"),
            acceptedAt: try row.moment("accepted_at"),
            stuckAt: try row.moment("stuck_at")
        )
    }
}

extension FailurePosition {
    init(_ row: inout RowReader) throws {
        self.init(
            at: try row.moment("stuck_at"),
            organization: try row.uuid("organization_id"),
            user: try row.uuid("user_id"),
            id: try row.uuid("id")
        )
    }
}
