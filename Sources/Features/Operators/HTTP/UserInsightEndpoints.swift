import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// Information about one user for operators: `…/users/{user}/lane`, and `…/users/{user}/explain`.
struct UserInsightEndpoints: Sendable {
    let store: Store

    /// Responds with the mutations of the lane in order, the mutation that halts or delays the lane, and the state of
    /// the user's devices.
    func lane(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["limit", "cursor"])
        let (limit, cursor) = try (query.limit(default: 100), query.text("cursor"))
        let (organization, user) = try await store.catalog.owner(of: exchange)
        let lane = LaneKey(organization: organization.id, user: user)
        try await exchange.hold.acquire()
        let json = try await BlockingWork.run {
            let page = try await store.laneListing.page(of: lane, limit: limit, cursor: cursor)
            let backlog = try await store.backlog.backlog(organization: lane.organization, user: lane.user)
            return LaneAnswer(user: user, page: page, backlog: backlog).json()
        }
        return Answer(.ok, json: json)
    }

    func explain(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["mutation", "device", "entity_type", "entity_id"])
        let (mutation, device) = try (query.uuid("mutation"), query.uuid("device"))
        let (type, entity) = try (query.text("entity_type"), query.text("entity_id"))
        guard (type == nil) == (entity == nil) else {
            throw Problem.invalidParameter("'entity_type' and 'entity_id' belong together")
        }
        let key = type.flatMap { type in entity.map { EntityKey(type: type, id: $0) } }
        let (id, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let organization = try await store.catalog.organization(id) else { throw Refusal.notFound }
        try await exchange.hold.acquire(ResponseMemoryLease.backlog)
        let json = try await BlockingWork.run {
            try await store.explainer.explanation(
                of: user,
                in: organization,
                mutation: mutation,
                device: device,
                entity: key
            ).json()
        }
        return Answer(.ok, json: json)
    }
}

/// A lane in order, the reason why it does not run, and the user's devices.
struct LaneAnswer: AnswerBody {
    let user: UUID
    let page: LaneListing.Page
    let backlog: Backlog

    var expectedBytes: Int { 1_024 + page.mutations.count * 512 + backlog.devices.count * 448 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("user_id", user)
        writer.member("lane") { writer in
            writer.member("counts", backlog.counts)
            writer.member("is_truncated", backlog.isTruncated)
            writer.member("halted_by", page.lane?.haltedBy)
            writer.member("held_by", backlog.blocker)
            writer.member("in_flight", page.lane?.inFlight)
            writer.member("ready_at", page.lane?.readyAt?.rfc3339)
            writer.member("queued_since", page.lane?.queue.since?.rfc3339)
            writer.name("lease")
            if let owner = page.lane?.lease.owner {
                writer.object { writer in
                    writer.member("gateway_id", owner)
                    writer.member("until", page.lane?.readyAt?.rfc3339)
                }
            } else {
                writer.null()
            }
        }
        writer.member("mutations", page.mutations)
        writer.member("next", page.next)
        writer.member("devices", backlog.devices)
    }
}

extension LaneListing.Mutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", base.id)
        writer.member("device_id", base.deviceID)
        writer.member("sequence_number", base.sequenceNumber)
        writer.member("position", base.position)
        writer.member("status", base.status.rawValue)
        writer.member("operation", base.operation.rawValue)
        writer.member("entity_type", entity.type)
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
        writer.member("blocked_by", base.status == .blocked ? base.dependsOn : [])
        writer.member("attempt_count", Int64(base.attemptCount))
        writer.member("next_retry_at", base.nextRetryAt?.rfc3339)
        writer.member("error_code", errorCode)
        writer.member("response_status", responseStatus.flatMap(\.asStatus))
        writer.member("created_at", base.createdAt.rfc3339)
        writer.member("accepted_at", base.acceptedAt.rfc3339)
        writer.member("changed_at", changedAt.rfc3339)
    }
}

extension Explanation: AnswerBody {
    package var expectedBytes: Int { 64 + findings.count * 384 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("findings", findings)
    }
}

extension Finding: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("severity", severity.rawValue)
        writer.member("code", code.rawValue)
        writer.member("sentence", sentence)
        writer.member("do", action)
        writer.member("mutation_id", mutation)
        writer.member("until", until?.rfc3339)
    }
}
