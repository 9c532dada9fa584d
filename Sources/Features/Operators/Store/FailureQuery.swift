package import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

/// A search for stuck mutations: mutations that wait for a person because they failed or are in conflict. The search
/// uses the index that fits the filter.
///
/// Lists read the newest mutations first. Bulk operations read mutations in the order in which they got stuck. Every
/// search reads a bounded number of mutations, and the next search continues after the last mutation that was read.
package struct FailureQuery: Sendable {
    /// The index that a search uses. Each index has its own statements, so that any plan of a statement uses this
    /// index.
    enum Path {
        case everywhere
        case someGroupsOfAll
        case organization
        case someGroups
        case group
        case user
        case ids
    }

    /// A position among the stuck mutations of an organization.
    package struct Place: Sendable, Hashable {
        package let at: Timestamp
        package let user: UUID
        package let id: UUID

        package init(at: Timestamp, user: UUID, id: UUID) {
            self.at = at
            self.user = user
            self.id = id
        }

        /// Reads `stuck_at`, `user_id` and `id`.
        package init(_ row: inout RowReader) throws {
            self.init(at: try row.read("stuck_at"), user: try row.read("user_id"), id: try row.read("id"))
        }
    }

    /// The maximum number of mutations that one page of a list reads.
    static let listScan: Int64 = 10_000
    /// The maximum number of a lane's open mutations that a list of one user reads.
    static let laneScan: Int64 = 50_000
    /// The maximum number of mutations that one step of an operation reads. An operation on one user reads all open
    /// mutations of this user in each step, as settling does.
    static let operationScan: Int64 = 5_000

    private let filter: FailureFilter
    private let ids: [UUID]?
    private let organization: UUID?
    private let path: Path

    /// - Parameters:
    ///   - ids: restricts the search to these mutations, which must also match the filter. This requires an
    ///     organization.
    ///   - organization: restricts the search to this organization. If it is nil, the search covers all organizations,
    ///     and the filter must not name a user.
    init(_ filter: FailureFilter, ids: [UUID]? = nil, of organization: UUID?) {
        (self.filter, self.ids, self.organization) = (filter, ids, organization)
        path =
            if organization == nil {
                filter.isOfSomeGroups ? .someGroupsOfAll : .everywhere
            } else if ids != nil {
                .ids
            } else if filter.user != nil {
                .user
            } else if filter.group != nil {
                .group
            } else {
                filter.isOfSomeGroups ? .someGroups : .organization
            }
    }

    /// Returns a query for the next mutations, newest first. A second query returns the last mutation that was read, if
    /// more mutations may follow.
    ///
    /// A search for one user's mutations has no second query, because it reads up to ``laneScan`` open mutations at
    /// once.
    func newest(behind place: FailurePosition, limit: Int) -> [Query] {
        let parameters =
            if let organization {
                Parameters(of: organization, place.at, place.user, place.id, place.at)
            } else {
                Parameters(place.at, place.organization, place.user, place.id)
            }
        return queries(.newest, parameters, scan: path == .user ? Self.laneScan : Self.listScan, limit)
    }

    /// Returns a query for the positions of the next mutations that got stuck at or before a moment. A second query
    /// returns the last mutation that was read, if more mutations may follow.
    func oldest(behind place: Place?, until moment: Timestamp, limit: Int) -> [Query] {
        let parameters = Parameters(
            of: organization ?? .least,
            place?.at ?? .longAgo,
            place?.user ?? UUID.least,
            place?.id ?? UUID.least,
            moment
        )
        let queries = queries(.oldest, parameters, scan: path == .user ? .max : Self.operationScan, limit)
        return queries.count > 1 ? queries : queries + [Query(FailureStatements.noEdge)]
    }

    /// Counts the mutations that got stuck at or before a moment, and the users of these mutations. The query counts at
    /// most ``BoundedCount/limit`` mutations, and returns whether there are more.
    func count(until moment: Timestamp) -> Query {
        var parameters = Parameters(of: organization ?? .least, moment)
        addKey(to: &parameters)
        addFilter(to: &parameters)
        return Query(FailureStatements.count(path), parameters)
    }

    private func queries(
        _ statements: FailureStatements,
        _ place: Parameters,
        scan: Int64,
        _ limit: Int
    ) -> [Query] {
        var read = place
        addKey(to: &read)
        if path != .ids { read.add(scan) }
        var page = read
        addFilter(to: &page)
        page.add(limit)
        let edge = statements.edge(path).map { Query($0, read) }
        return [Query(statements.page(path), page), edge].compactMap(\.self)
    }

    /// Adds the parameters of the index's key.
    private func addKey(to parameters: inout Parameters) {
        switch path {
        case .ids: parameters.add(ids ?? [])
        case .user: parameters.add(filter.user)
        case .group:
            parameters.add(filter.entityType)
            parameters.add(filter.errorCode)
            parameters.add(filter.responseStatus)
        case .everywhere, .someGroupsOfAll, .organization, .someGroups: break
        }
    }

    private func addFilter(to parameters: inout Parameters) {
        parameters.add(groupsOf: filter)
        if path == .ids { parameters.add(filter.user) }
    }
}
