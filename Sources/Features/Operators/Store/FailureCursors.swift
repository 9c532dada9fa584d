package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// A position among the groups of stuck mutations (failed or in conflict). It is valid only for the filter with which
/// it was made.
struct FailureGroupCursor {
    let organization: UUID
    /// The group after which the page begins; nil for the organization's first group.
    let key: FailureGroup.Key?
    private let filter: UInt64

    init(_ text: String?, _ filter: FailureFilter, _ organization: UUID?) throws(Problem) {
        self.filter = filter.standIn ^ (organization.map { FeedCursor.filter([$0.lowercased]) } ?? 0)
        guard let text else {
            (self.organization, key) = (organization ?? UUID.least, nil)
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard [3, 6].contains(parts.count), parts[0] == "g1", let place = UUID(parsing: parts[1]),
            let made = UInt64(parts[2], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        self.organization = place
        guard parts.count == 6 else {
            key = nil
            return
        }
        guard let status = Int16(parts[5]), EntityType.isValidName(parts[3]), parts[4].utf8.count <= 64 else {
            throw .foreignCursor
        }
        key = FailureGroup.Key(entityType: parts[3], errorCode: parts[4], responseStatus: status)
    }

    func next(_ organization: UUID, _ key: FailureGroup.Key?) -> String {
        let start = ["g1", organization.lowercased, String(filter, radix: 36)]
        let end = key.map { [$0.entityType, $0.errorCode, String($0.responseStatus)] } ?? []
        return (start + end).joined(separator: ".")
    }
}

/// A position among the stuck mutations, newest first. It is valid only for the filter with which it was made.
struct FailureCursor {
    let place: FailurePosition
    private let filter: UInt64

    init(_ text: String?, _ filter: FailureFilter, _ organization: UUID?) throws(Problem) {
        self.filter = filter.standIn ^ (organization.map { FeedCursor.filter([$0.lowercased]) } ?? 0)
        guard let text else {
            place = .newest
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 6, parts[0] == "s1", let moment = Int64(parts[1], radix: 36),
            let organization = UUID(parsing: parts[2]), let user = UUID(parsing: parts[3]),
            let id = UUID(parsing: parts[4]), let made = UInt64(parts[5], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        place = FailurePosition(at: Timestamp(microseconds: moment), organization: organization, user: user, id: id)
    }

    func next(_ place: FailurePosition) -> String {
        [
            "s1", String(place.at.microseconds, radix: 36), place.organization.lowercased, place.user.lowercased,
            place.id.lowercased, String(filter, radix: 36),
        ].joined(separator: ".")
    }
}

/// A position among the lanes in which nothing runs. It is valid only for the filter with which it was made.
struct StoppedLaneCursor {
    let place: (at: Timestamp, organization: UUID, user: UUID)
    private let filter: UInt64

    /// - Parameter now: the present time. Lanes that are due after this time are waiting.
    init(_ text: String?, _ state: StoppedLanes.State, _ organization: UUID?, now: Timestamp) throws(Problem) {
        filter = FeedCursor.filter([state.rawValue] + [organization?.lowercased].compactMap(\.self))
        guard let text else {
            place =
                switch state {
                case .halted: (now, organization ?? .least, .least)
                case .waiting: (now, organization ?? .greatest, .greatest)
                }
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 5, parts[0] == "k1", let moment = Int64(parts[1], radix: 36),
            let place = UUID(parsing: parts[2]), let user = UUID(parsing: parts[3]),
            let made = UInt64(parts[4], radix: 36)
        else { throw .foreignCursor }
        guard made == filter else { throw .cursorOfAnotherFilter }
        // lanes that have become due since the previous page no longer wait, so the page begins at the present time
        self.place = (max(Timestamp(microseconds: moment), now), organization ?? place, user)
    }

    func next(_ lane: StoppedLanes.Lane) -> String {
        [
            "k1", String(lane.readyAt?.microseconds ?? 0, radix: 36), lane.key.organization.lowercased,
            lane.key.user.lowercased, String(filter, radix: 36),
        ].joined(separator: ".")
    }
}

/// The position of a mutation among the stuck mutations.
struct FailurePosition: Sendable, Hashable {
    let at: Timestamp
    let organization: UUID
    let user: UUID
    let id: UUID

    /// The position before all mutations in the order from newest to oldest.
    static let newest = FailurePosition(
        at: Timestamp(microseconds: .max),
        organization: .greatest,
        user: .greatest,
        id: .greatest
    )
}

// MARK: - FailureList

/// Lists the stuck mutations (failed or in conflict), newest first, over all organizations or in one.
///
/// The number of mutations that a page reads is bounded for any filter. A short or empty page can therefore have a next
/// page.
package struct FailureList: Sendable {
    package struct Page: Sendable {
        package let mutations: [FailedMutation]
        package let next: String?
    }

    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure

    /// - Parameters:
    ///   - organization: restricts the list to this organization. If it is nil, the list covers all organizations, and
    ///     the filter must not name a user.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    /// - Throws: `invalid_request` for a cursor that is invalid or was made with another filter.
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

    /// Returns the mutations at given positions.
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

    /// Decrypts the problems. If an organization's keys are unavailable, its problems stay encrypted.
    private func read(_ rows: Rows) async throws -> [FailedMutation] {
        let owners = Set(try rows.read { try $0.read("organization_id", as: UUID.self) })
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

/// The properties of a mutation that all of the operators' lists have. They contain no content of the user.
package struct MutationSummary: Sendable {
    package let lane: LaneKey
    package let id: UUID
    package let device: UUID
    package let operation: SyncModel.Operation
    package let entity: EntityName
    package let status: MutationStatus
    /// The problem's code; nil without a problem.
    package let errorCode: String?
    /// The HTTP status of the response that made the mutation fail; nil or 0 without such a response.
    package let responseStatus: Int16?
    package let attemptCount: Int16
    package let acceptedAt: Timestamp

    static let list = """
        m.organization_id, m.user_id, m.id, m.device_id, m.operation, \(EntityName.list), m.status, m.error_code,
            m.error_status, m.attempt_count, m.accepted_at
        """

    init(_ row: inout RowReader) throws {
        lane = try row.lane()
        id = try row.read("id")
        device = try row.read("device_id")
        operation = try row.choice("operation")
        entity = try row.entity()
        status = try row.choice("status")
        errorCode = try row.read("error_code")
        responseStatus = try row.read("error_status")
        attemptCount = try row.read("attempt_count")
        acceptedAt = try row.read("accepted_at")
    }
}

/// A mutation that waits for a person, as it appears in lists over all users.
@dynamicMemberLookup
package struct FailedMutation: Sendable {
    package let summary: MutationSummary
    /// The problem as a sentence; nil if it cannot be decrypted.
    package let detail: String?
    /// The time at which the mutation began to wait for a person.
    package let stuckAt: Timestamp

    package subscript<Value>(dynamicMember member: KeyPath<MutationSummary, Value>) -> Value {
        summary[keyPath: member]
    }

    var place: FailurePosition {
        FailurePosition(
            at: stuckAt,
            organization: summary.lane.organization,
            user: summary.lane.user,
            id: summary.id
        )
    }

    static let list = "\(MutationSummary.list), m.error, m.stuck_at"

    /// - Parameter seals: the keys by organization. If an organization has no entry, its problems stay encrypted.
    init(_ row: inout RowReader, _ seals: [UUID: Seal]) throws {
        let summary = try MutationSummary(&row)
        let error: [UInt8]? = try row.read("error")
        if let seal = seals[summary.lane.organization] {
            var closed: [String] = []
            let laneSeal = LaneSeal(seal: seal.withoutKeyRefresh, user: summary.lane.user)
            detail = try laneSeal.read(json: error, .error, of: summary.id, &closed)
                .flatMap { StoredProblem($0).detail }
        } else {
            detail = nil
        }
        stuckAt = try row.read("stuck_at")
        self.summary = summary
    }
}

extension FailurePosition {
    init(_ row: inout RowReader) throws {
        self.init(
            at: try row.read("stuck_at"),
            organization: try row.read("organization_id"),
            user: try row.read("user_id"),
            id: try row.read("id")
        )
    }
}
