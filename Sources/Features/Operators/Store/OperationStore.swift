package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// Previews, creates, lists and ends operators' bulk operations. ``OperationRun`` processes them.
package struct OperationStore: Sendable {
    /// The mutations that an operation would process.
    package struct Preview: Sendable {
        package let count: BoundedCount
        package let users: BoundedCount
        /// The first of these mutations.
        package let sample: [FailedMutation]
    }

    package struct Page: Sendable {
        package let operations: [OperationRow]
        package let next: String?
    }

    /// The maximum number of an organization's operations that run at the same time.
    package static let atOnce: Int64 = 20
    /// The number of mutations that a preview shows.
    static let sample = 20

    let pool: Pool
    let stuckList: FailureList
    let evaluation: ChannelEvaluation
    let now: TimeSource
    let failure: StoreFailure
    private let ids = UUIDv7Generator()

    init(
        pool: Pool,
        stuckList: FailureList,
        evaluation: ChannelEvaluation,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.pool = pool
        self.stuckList = stuckList
        self.evaluation = evaluation
        self.now = now
        self.failure = failure
    }

    /// Returns the number of matching mutations, and the first of them.
    package func preview(_ draft: OperationDraft, in organization: UUID) async throws(Problem) -> Preview {
        if draft.kind == .evaluate, let type = draft.filter.entityType {
            try await evaluation.check(type, in: organization)
            let count = try await evaluation.count(of: type, in: organization)
            return Preview(count: count, users: BoundedCount(found: 0), sample: [])
        }
        let count: BoundedCount
        let users: BoundedCount
        let places: [FailureQuery.Place]
        do {
            let moment = now()
            let search = FailureQuery(draft.filter, ids: draft.ids, of: organization)
            let matches = search.count(until: moment)
            let find = search.oldest(behind: nil, until: moment, limit: Self.sample)
            let results = try await pool.readByIndex([matches, find[0]])
            guard var row = results[0].first else { throw PostgresError(.decoding, "a count without a row") }
            let (found, owners, isCut) = try (
                row.read("count", as: Int64.self), row.read("users", as: Int64.self), row.read("is_cut", as: Bool.self)
            )
            count = Self.bounded(found, isCut)
            let isMany = isCut && draft.filter.user == nil
            users = BoundedCount(found: isMany ? owners + 1 : owners, limit: isMany ? owners : BoundedCount.limit)
            places = try results[1].read(FailureQuery.Place.init)
        } catch {
            throw failure.problem(error, doing: "preview an operation")
        }
        let sample = try await stuckList.mutations(at: places, in: organization)
        return Preview(count: count, users: users, sample: sample)
    }

    private static func bounded(_ found: Int64, _ isCut: Bool) -> BoundedCount {
        BoundedCount(found: isCut ? found + 1 : found, limit: isCut ? found : BoundedCount.limit)
    }

    /// Returns the number of mutations or entities that an operation covers when it is created.
    private func total(_ draft: OperationDraft, in organization: UUID, at moment: Timestamp) async throws
        -> BoundedCount
    {
        if draft.kind == .evaluate, let type = draft.filter.entityType {
            try await evaluation.check(type, in: organization)
            return try await evaluation.count(of: type, in: organization)
        }
        let rows = try await pool.readByIndex(
            FailureQuery(draft.filter, ids: draft.ids, of: organization).count(until: moment)
        )
        guard var row = rows.first else { throw PostgresError(.decoding, "a count without a row") }
        let (found, _, isCut) = try (
            row.read("count", as: Int64.self), row.read("users", as: Int64.self), row.read("is_cut", as: Bool.self)
        )
        return Self.bounded(found, isCut)
    }

    /// Creates an operation, which a gateway begins immediately.
    ///
    /// - Parameter actor: the operator who requests the operation.
    /// - Returns: nil if there is no such organization.
    /// - Throws: `validation_failed` if the maximum number of operations is running; `user_erased` if the operation
    ///   names an erased user.
    package func make(
        _ draft: OperationDraft,
        in organization: UUID,
        by actor: String
    ) async throws(Problem) -> OperationRow? {
        let moment = now()
        let filter = draft.filter
        var parameters = Parameters(of: organization, ids.make(at: moment), draft.kind.rawValue)
        parameters.add(filter.statuses.map(\.rawValue))
        parameters.add(filter.entityType)
        parameters.add(filter.errorCode)
        parameters.add(filter.responseStatus)
        parameters.add(filter.user)
        parameters.add(draft.ids ?? [])
        parameters.add(draft.dependants?.rawValue)
        parameters.add(draft.strategy?.rawValue)
        parameters.add(draft.reason)
        parameters.add(actor)
        parameters.add(Int32(draft.perSecond))
        parameters.add(moment)
        parameters.add(draft.ids != nil)
        let isErased = OperationStatements.isErased(organization: organization, user: filter.user)
        do {
            let total = try await total(draft, in: organization, at: moment)
            parameters.add(total.count)
            parameters.add(total.isMore)
            return try await pool.transaction { [parameters] connection in
                // operations are created one at a time, because each creation must count the operations created before
                // it
                let facts = try await connection.run([
                    OperationStatements.lockOrganization(organization: organization),
                    OperationStatements.running(organization: organization, limit: Self.atOnce),
                    isErased,
                ])
                guard try facts[1].read(0, 0, as: Int64.self) < Self.atOnce else { throw Self.tooMany }
                guard facts[2].count == 0 else { throw Self.ofNobody }
                return try await connection.run(Query(OperationStatements.make, parameters)).read(OperationRow.init)
                    .first
            }
        } catch {
            throw failure.problem(error, doing: "make an operation")
        }
    }

    private static var tooMany: Problem {
        let detail = "\(atOnce) operations of this organization are already running: wait for one to end, or cancel one"
        return Problem(.validationFailed, pointer: "", rule: Rule.range, detail)
    }

    private static var ofNobody: Problem {
        Problem(
            .userErased,
            pointer: "/filter/user_id",
            rule: Rule.owner,
            "the user was erased and has no mutations to settle"
        )
    }

    /// Returns an operation; nil if there is no such operation.
    package func operation(_ id: UUID, in organization: UUID) async throws(Problem) -> OperationRow? {
        try await failure.reporting("read an operation") {
            try await pool.run([OperationStatements.find(organization: organization, id: id)])[0]
                .read(OperationRow.init).first
        }
    }

    /// Returns a page of operations, newest first.
    ///
    /// - Parameters:
    ///   - organization: restricts the list to this organization; nil lists all organizations.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    package func list(
        of organization: UUID?,
        state: OperationState?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let place = try OperationPlace(cursor)
        let parameters = Parameters(
            organization ?? UUID.least,
            place.at,
            place.organization,
            place.id,
            state?.rawValue,
            Int64(limit + 1)
        )
        let statement =
            organization == nil ? OperationStatements.listOfAll : OperationStatements.listOfOrganization
        return try await failure.reporting("list operations") {
            let found = try await pool.run([Query(statement, parameters)])[0].read { row in
                (operation: try OperationRow(&row), hasMore: try row.read("has_more", as: Bool.self))
            }
            let page = found.prefix(limit).map(\.operation)
            let isCut = found.count > limit || found.last?.hasMore == true
            return Page(
                operations: page,
                next: isCut ? page.last.map { OperationPlace($0).text } : nil
            )
        }
    }

    /// Ends an operation. If the operation has already ended, it stays unchanged.
    ///
    /// The gateway that processes the operation still settles its current batch, at most ``OperationPace/batch``
    /// mutations.
    ///
    /// - Returns: the operation after the change; nil if there is no such operation.
    package func cancel(_ id: UUID, in organization: UUID) async throws(Problem) -> OperationRow? {
        let moment = now()
        return try await failure.reporting("cancel an operation") {
            let results = try await pool.run([
                OperationStatements.cancel(organization: organization, id: id, now: moment),
                OperationStatements.find(organization: organization, id: id),
            ])
            return try results[1].read(OperationRow.init).first
        }
    }
}

/// A position in a list of operations, newest first.
private struct OperationPlace {
    var at = Timestamp(microseconds: .max)
    var organization = UUID.greatest
    var id = UUID.greatest

    init(_ row: OperationRow) {
        (at, organization, id) = (row.createdAt, row.organization, row.id)
    }

    init(_ cursor: String?) throws(Problem) {
        guard let cursor else { return }
        let parts = cursor.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, parts[0] == "p1", let moment = Int64(parts[1], radix: 36),
            let organization = UUID(parsing: parts[2]), let id = UUID(parsing: parts[3])
        else { throw .invalidParameter("the query parameter 'cursor' is invalid") }
        (at, self.organization, self.id) = (Timestamp(microseconds: moment), organization, id)
    }

    var text: String {
        ["p1", String(at.microseconds, radix: 36), organization.lowercased, id.lowercased].joined(separator: ".")
    }
}
