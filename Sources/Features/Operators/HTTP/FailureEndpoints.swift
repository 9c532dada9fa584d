import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// Stuck mutations (failed or in conflict) and stopped lanes, over all organizations.
///
/// `GET /admin/failures` groups the stuck mutations, and `GET /admin/mutations` lists them. `GET /admin/lanes` lists
/// the lanes in which nothing runs.
package struct FailureEndpoints: Sendable {
    /// The number of groups on a page: the default, and the maximum.
    private static let groups = (standard: 50, maximum: 100)

    let store: Store

    func groups(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: URLQuery.stuckFilter.union(["limit", "cursor"]))
        let (organization, filter) = try (query.uuid("organization_id"), query.stuckFilter())
        let limit = try query.integer("limit", in: 1...Self.groups.maximum, default: Self.groups.standard)
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

    /// Reads the filter without `user_id`, because not all lists support this parameter.
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
            // `none` means that there was no response
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

extension FailureGroups.Page: AnswerBody {
    package var expectedBytes: Int { 64 + groups.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("groups", groups)
        writer.member("next", next)
        writer.member("is_partial", isPartial)
    }
}

extension FailureGroup: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("organization_id", organization)
        writer.member("organization_name", organizationName)
        writer.member("status", key.status.rawValue)
        writer.member("entity_type", key.entityType)
        writer.member("response_status", key.responseStatus.asStatus)
        writer.member("error_code", key.errorCode)
        count.writeMembers(to: &writer)
        writer.member("first_at", firstAt.rfc3339)
        writer.member("last_at", lastAt.rfc3339)
        writer.member("example") { writer in
            writer.member("user_id", user)
            writer.member("mutation_id", mutation)
            writer.member("detail", detail)
        }
    }
}

extension MutationSummary {
    typealias Members = (inout JSONWriter) -> Void

    /// Writes the members that all lists of mutations have.
    ///
    /// A list can have further members. Each closure writes the members that follow the member in the closure's name.
    func writeMembers(
        to writer: inout JSONWriter,
        changedAt: Timestamp,
        afterDevice: Members = { _ in },
        afterEntity: Members = { _ in },
        afterError: Members = { _ in }
    ) {
        writer.member("organization_id", lane.organization)
        writer.member("user_id", lane.user)
        writer.member("id", id)
        writer.member("device_id", device)
        afterDevice(&writer)
        writer.member("status", status.rawValue)
        writer.member("operation", operation.rawValue)
        writer.member("entity_type", entity.type)
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
        afterEntity(&writer)
        writer.member("response_status", responseStatus.flatMap(\.asStatus))
        writer.member("error_code", errorCode)
        afterError(&writer)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("accepted_at", acceptedAt.rfc3339)
        writer.member("changed_at", changedAt.rfc3339)
    }
}

extension FailedMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        summary.writeMembers(to: &writer, changedAt: stuckAt, afterError: { $0.member("detail", detail) })
    }
}

/// A page of stuck mutations, with their users.
struct FailureListAnswer: AnswerBody {
    let page: FailureList.Page
    let users: LaneUsers

    var expectedBytes: Int { 64 + page.mutations.count * 640 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutations", page.mutations)
        users.writeMember(to: &writer)
        writer.member("next", page.next)
    }
}

extension StoppedLanes.Lane: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("organization_id", key.organization)
        writer.member("user_id", key.user)
        writer.member("halted_by", haltedBy)
        writer.member("ready_at", readyAt?.rfc3339)
        writer.member("queued_count", Int64(queuedCount))
        writer.member("queued_since", queuedSince?.rfc3339)
    }
}

/// A page of lanes in which nothing runs, with their users.
struct StoppedLanesAnswer: AnswerBody {
    let page: StoppedLanes.Page
    let users: LaneUsers

    var expectedBytes: Int { 64 + page.lanes.count * 384 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("lanes", page.lanes)
        users.writeMember(to: &writer)
        writer.member("next", page.next)
    }
}

extension Int16 {
    /// The status; nil for 0, which means that there is no status.
    var asStatus: Int64? { self == 0 ? nil : Int64(self) }
}

/// The users on a page that covers all organizations, each with the subjects that issuers use for the user.
struct LaneUsers: Sendable {
    private let lanes: [LaneKey]
    private let subjects: [LaneKey: [Subject]]

    init(of lanes: some Sequence<LaneKey>, in store: Store) async throws {
        self.lanes = Set(lanes).sorted()
        var subjects: [LaneKey: [Subject]] = [:]
        for (organization, found) in Dictionary(grouping: self.lanes, by: \.organization) {
            let known = try await store.administration.subjects(of: Set(found.map(\.user)), in: organization)
            for (user, names) in known { subjects[LaneKey(organization: organization, user: user)] = names }
        }
        self.subjects = subjects
    }

    /// Writes the member `users`.
    func writeMember(to writer: inout JSONWriter) {
        writer.member("users", lanes) { writer, lane in
            writer.object { writer in
                writer.member("organization_id", lane.organization)
                writer.member("id", lane.user)
                writer.member("subjects", subjects[lane] ?? [])
            }
        }
    }
}
