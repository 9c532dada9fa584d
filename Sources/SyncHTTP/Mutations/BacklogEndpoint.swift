import HTTPTypes
package import JSONText
package import SyncModel
package import SyncStore

/// `GET /v1/backlog`: the counts of the caller's mutations that are neither succeeded nor discarded, by status, and the
/// reason why the lane does not run.
package struct BacklogEndpoint: Sendable {
    package let store: Store

    package func read(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        try await exchange.hold.acquire(ResponseMemoryLease.backlog)
        let json = try await BlockingWork.run {
            try await store.backlog.backlog(organization: caller.organization.id, user: caller.user).json()
        }
        return Answer(.ok, json: json)
    }
}

extension Backlog: AnswerBody {
    package var expectedBytes: Int { 512 + devices.count * 448 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("devices", devices)
        writer.member("lane") { writer in
            writer.member("counts", counts)
            writer.member("is_truncated", isTruncated)
            writer.member("head", head.map(Head.init))
            writer.member("held_by", blocker)
        }
    }
}

extension Backlog.Counts: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        for status in [MutationStatus.pending, .blocked, .inFlight, .conflict, .failed] {
            writer.name(status.rawValue)
            writer.int(self[status])
        }
    }
}

extension Backlog.Device: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("device_id", id)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("last_seen_at", lastSeenAt.rfc3339)
        writer.member("counts", counts)
        writer.member("oldest_pending", oldestPending)
    }
}

/// Writes a device's oldest pending mutation.
extension Backlog.Mutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("sequence_number", sequenceNumber)
        writer.member("status", status.rawValue)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("accepted_at", acceptedAt.rfc3339)
    }
}

extension LaneBlocker: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("reason", reason.rawValue)
        writer.member("until", until?.rfc3339)
        writer.member("mutation_ids", mutationIDs)
    }
}

/// The mutation at the head of a lane.
private struct Head: AnswerBody {
    package let mutation: Backlog.Mutation

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", mutation.id)
        writer.member("device_id", mutation.deviceID)
        writer.member("sequence_number", mutation.sequenceNumber)
        writer.member("status", mutation.status.rawValue)
        writer.member("operation", mutation.operation.rawValue)
        writer.member("entity_type", mutation.entityType)
        writer.member("attempt_count", Int64(mutation.attemptCount))
        writer.member("next_retry_at", mutation.nextRetryAt?.rfc3339)
        writer.member("blocked_by", mutation.status == .blocked ? mutation.dependsOn : [])
    }
}
