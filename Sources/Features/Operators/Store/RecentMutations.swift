package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// Lists mutations in every status, of an organization or of one user, beginning with the latest change.
///
/// In an organization, indexes order final and stuck mutations (failed or in conflict) by time. Open mutations have no
/// such index, so each page reads the first open mutations in the order of users and lanes. The mutations of one user
/// are in the order of the lane.
///
/// The number of mutations that a page reads is bounded for any filter. A short or empty page can therefore have a next
/// page.
package struct RecentMutations: Sendable {
    package struct Filter: Sendable, Hashable {
        /// The requested statuses; empty for all.
        package var statuses: [MutationStatus] = []
        package var user: UUID?
        package var device: UUID?
        @Exact package var entityType: String?
        /// The entity's server id.
        @Exact package var entityID: String?
        /// The only mutation to list. If the filter has no user, the mutation is searched in the lanes of all users.
        package var mutation: UUID?
        /// Only mutations that changed at or before this time are listed. A list of one user ignores this time.
        package var until: Timestamp?

        package init() {}

        fileprivate var permitsAll: Bool {
            statuses.isEmpty && device == nil && entityType == nil && entityID == nil
        }
    }

    package struct Page: Sendable {
        package let mutations: [RecentMutation]
        package let next: String?
    }

    /// The maximum number of mutations that one page reads. Also the maximum number of lanes in which one page searches
    /// for an id.
    package static let scan: Int64 = 10_000

    let pool: Pool
    let failure: StoreFailure

    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    /// - Throws: `invalid_request` for a cursor that is invalid or was made with another filter.
    package func page(
        _ filter: Filter,
        organization: UUID,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try RecentCursor(cursor, filter, organization)
        do {
            if let user = filter.user, let id = filter.mutation {
                let one = RecentStatements.one(organization: organization, user: user, id: id)
                return Page(mutations: try await pool.readByIndex(one).read(RecentMutation.init), next: nil)
            }
            let (found, edge) =
                if let id = filter.mutation {
                    try await mutations(id, organization, after: start.place, limit + 1)
                } else if let user = filter.user {
                    try await mutations(of: user, filter, organization, before: start.place, limit + 1)
                } else {
                    try await mutations(filter, organization, before: start.place, limit + 1)
                }
            let page = Array(found.prefix(limit))
            let last = found.count > limit ? page.last?.place(ofOneUser: filter.user != nil) : edge
            return Page(mutations: page, next: last.map(start.next))
        } catch {
            throw failure.problem(error, doing: "list recent mutations")
        }
    }

    private typealias Found = (mutations: [RecentMutation], edge: RecentCursor.Place?)

    /// Returns a page of an organization's mutations.
    ///
    /// A page reads at most ``scan`` rows of each of two indexes. If the scan of an index reaches this limit, the page
    /// must end at the last row of the scan (the edge), because later rows of that index are unknown. Therefore the
    /// edge is read first. If the filter permits every mutation, the page is full before a scan reaches the limit, and
    /// needs no edge.
    private func mutations(
        _ filter: Filter,
        _ organization: UUID,
        before place: RecentCursor.Place,
        _ limit: Int
    ) async throws -> Found {
        let statuses = filter.statuses.map(\.rawValue)
        let at = Timestamp(microseconds: place.number)
        let query = RecentStatements.edge(
            organization: organization,
            at: at,
            user: place.user,
            id: place.id,
            statuses: statuses,
            scan: Self.scan
        )
        let edges = filter.permitsAll ? nil : try await pool.readByIndex(query)
        let edge = try edges?.read { row in
            let at: Timestamp = try row.read("at")
            return RecentCursor.Place(at.microseconds, try row.read("user_id"), try row.read("id"))
        }.first
        var parameters = Parameters(of: organization, at, place.user, place.id)
        parameters.add(edge.map { Timestamp(microseconds: $0.number) } ?? .longAgo)
        parameters.add(edge?.user ?? UUID.least)
        parameters.add(edge?.id ?? UUID.least)
        parameters.add(Self.scan)
        add(filter, to: &parameters, limit)
        return (try await pool.readByIndex(Query(RecentStatements.page, parameters)).read(RecentMutation.init), edge)
    }

    private func mutations(
        of user: UUID,
        _ filter: Filter,
        _ organization: UUID,
        before place: RecentCursor.Place,
        _ limit: Int
    ) async throws -> Found {
        let edge = RecentStatements.edgeOfUser(
            organization: organization,
            user: user,
            position: place.number,
            scan: Self.scan
        )
        var parameters = Parameters(of: organization, user, place.number, Self.scan)
        add(filter, to: &parameters, limit)
        let results = try await pool.readByIndex([edge, Query(RecentStatements.pageOfUser, parameters)])
        let end = try results[0].read { RecentCursor.Place(try $0.read("position"), .least, .least) }.first
        return (try results[1].read(RecentMutation.init), end)
    }

    private func mutations(
        _ id: UUID,
        _ organization: UUID,
        after place: RecentCursor.Place,
        _ limit: Int
    ) async throws -> Found {
        let queries = [
            RecentStatements.edgeOfLanes(organization: organization, user: place.user, scan: Self.scan),
            RecentStatements.pageOfID(
                organization: organization,
                user: place.user,
                scan: Self.scan,
                id: id,
                limit: limit
            ),
        ]
        let results = try await pool.readByIndex([Query(Pool.orderShape)] + queries)
        let end = try results[1].read { RecentCursor.Place(0, try $0.read("user_id"), .least) }.first
        return (try results[2].read(RecentMutation.init), end)
    }

    private func add(_ filter: Filter, to parameters: inout Parameters, _ limit: Int) {
        parameters.add(filter.statuses.map(\.rawValue))
        parameters.add(filter.entityType)
        parameters.add(filter.entityID)
        parameters.add(filter.device)
        parameters.add(limit)
    }
}

/// A mutation in a list of mutations in every status.
@dynamicMemberLookup
package struct RecentMutation: Sendable {
    package let summary: MutationSummary
    package let sequenceNumber: Int64
    package let version: Int64?
    /// The time at which the mutation became final or stuck; for other mutations, the time at which it was accepted.
    package let changedAt: Timestamp
    private let position: Int64

    package subscript<Value>(dynamicMember member: KeyPath<MutationSummary, Value>) -> Value {
        summary[keyPath: member]
    }

    static let list = "\(MutationSummary.list), m.sequence_number, m.version, m.at, m.position"

    init(_ row: inout RowReader) throws {
        summary = try MutationSummary(&row)
        sequenceNumber = try row.read("sequence_number")
        version = try row.read("version")
        changedAt = try row.read("at")
        position = try row.read("position")
    }

    fileprivate func place(ofOneUser isOfOneUser: Bool) -> RecentCursor.Place {
        RecentCursor.Place(isOfOneUser ? position : changedAt.microseconds, summary.lane.user, summary.id)
    }
}

/// A position in a list of recent mutations. It is valid only for the filter and the organization with which it was
/// made.
private struct RecentCursor {
    /// A time in microseconds or a position in the lane, together with the user and the id of the mutation.
    struct Place {
        let number: Int64
        let user: UUID
        let id: UUID

        init(_ number: Int64, _ user: UUID, _ id: UUID) { (self.number, self.user, self.id) = (number, user, id) }
    }

    let place: Place
    private let filter: UInt64

    init(_ text: String?, _ filter: RecentMutations.Filter, _ organization: UUID) throws(Problem) {
        self.filter = FeedCursor.filter([
            "o" + organization.lowercased, "s" + filter.statuses.map(\.rawValue).sorted().joined(separator: "+"),
            "u" + (filter.user?.lowercased ?? ""), "d" + (filter.device?.lowercased ?? ""),
            "t" + (filter.entityType ?? ""), "e" + (filter.entityID ?? ""), "m" + (filter.mutation?.lowercased ?? ""),
        ])
        guard let text else {
            // a search for an id begins at the first user, and all other lists begin at the latest mutation
            let isOfID = filter.mutation != nil
            let until = filter.user == nil ? filter.until?.microseconds : nil
            place = Place(until ?? .max, isOfID ? .least : .greatest, .greatest)
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 5, parts[0] == "r1", let number = Int64(parts[1], radix: 36),
            let user = UUID(parsing: parts[2]), let id = UUID(parsing: parts[3]),
            let made = UInt64(parts[4], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        place = Place(number, user, id)
    }

    func next(_ place: Place) -> String {
        [
            "r1", String(place.number, radix: 36), place.user.lowercased, place.id.lowercased,
            String(filter, radix: 36),
        ].joined(separator: ".")
    }
}
