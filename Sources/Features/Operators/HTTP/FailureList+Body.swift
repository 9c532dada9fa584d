package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

extension BoundedCount: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("count", count)
        writer.member("is_more", isMore)
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

extension FailedMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("organization_id", lane.organization)
        writer.member("user_id", lane.user)
        writer.member("id", id)
        writer.member("device_id", device)
        writer.member("status", status.rawValue)
        writer.member("operation", operation.rawValue)
        writer.member("entity_type", entity.type)
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
        writer.member("response_status", responseStatus.asStatus)
        writer.member("error_code", errorCode)
        writer.member("detail", detail)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("accepted_at", acceptedAt.rfc3339)
        writer.member("changed_at", stuckAt.rfc3339)
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

/// A page of lanes in which nothing runs, and whose they are.
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
    /// The status; nil for 0, which means no status.
    var asStatus: Int64? { self == 0 ? nil : Int64(self) }
}
