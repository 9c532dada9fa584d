import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// Stuck mutations and stopped lanes over all organizations.
///
/// `GET /admin/failures` groups the mutations, `GET /admin/mutations` lists them, and `GET /admin/lanes` lists the
/// lanes in which nothing runs.
package struct FailureEndpoints: Sendable {
    /// Groups on a page, by default and at most.
    private static let groups = (usual: 50, most: 100)

    let store: Store

    func groups(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: URLQuery.stuckFilter.union(["limit", "cursor"]))
        let (organization, filter) = try (query.uuid("organization_id"), query.stuckFilter())
        let limit = try query.integer("limit", in: 1...Self.groups.most, default: Self.groups.usual)
        let cursor = try query.text("cursor")
        try await exchange.hold.acquire(ResponseMemoryLease.backlog)
        let json = try await BlockingWork.run {
            try await store.stuckGroups.page(filter, organization: organization, limit: limit, cursor: cursor).json()
        }
        return Answer(.ok, json: json)
    }

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: URLQuery.stuckFilter.union(["user_id", "limit", "cursor"]))
        let organization = try query.uuid("organization_id")
        var filter = try query.stuckFilter()
        filter.user = try query.uuid("user_id")
        if filter.user != nil, organization == nil {
            throw URLQuery.invalid("user_id", "requires 'organization_id'")
        }
        let (limit, cursor) = try (query.limit(default: 100), query.text("cursor"))
        try await exchange.hold.acquire()
        let json = try await BlockingWork.run { [filter] in
            let page = try await store.stuckList.page(
                filter,
                organization: organization,
                limit: limit,
                cursor: cursor
            )
            return FailureListAnswer(page: page, users: try await LaneUsers(of: page.mutations.map(\.lane), in: store))
                .json()
        }
        return Answer(.ok, json: json)
    }

    func lanes(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["state", "organization_id", "limit", "cursor"])
        let state: StoppedLanes.State = try query.choice("state") ?? .halted
        let (organization, limit) = try (query.uuid("organization_id"), query.limit(default: 100))
        let cursor = try query.text("cursor")
        try await exchange.hold.acquire()
        let json = try await BlockingWork.run {
            let page = try await store.stoppedLanes.page(
                state,
                organization: organization,
                limit: limit,
                cursor: cursor
            )
            return StoppedLanesAnswer(page: page, users: try await LaneUsers(of: page.lanes.map(\.key), in: store))
                .json()
        }
        return Answer(.ok, json: json)
    }
}

extension URLQuery {
    /// The parameters that select stuck mutations.
    static let stuckFilter: Set = ["organization_id", "status", "entity_type", "response_status", "error_code"]

    /// Without `user_id`, which not all lists have.
    func stuckFilter() throws(Problem) -> FailureFilter {
        var filter = FailureFilter()
        for word in list("status") {
            guard let status = MutationStatus.forAPerson.first(where: { $0.rawValue == word }) else {
                throw URLQuery.invalid("status", "must be statuses of: failed, conflict")
            }
            filter.statuses.append(status)
        }
        filter.entityType = try entityType("entity_type")
        if let text = try text("response_status") {
            // none is a status, too
            guard let status = text == "none" ? 0 : Int16(text), text == "none" || (100...599).contains(status) else {
                throw URLQuery.invalid("response_status", "must be an HTTP status, or none")
            }
            filter.responseStatus = status
        }
        if let code = try text("error_code") {
            guard ProblemCode(rawValue: code) != nil else {
                throw URLQuery.invalid("error_code", "must be the code of a problem")
            }
            filter.errorCode = code
        }
        return filter
    }
}
