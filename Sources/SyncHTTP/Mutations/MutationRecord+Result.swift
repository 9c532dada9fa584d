import JSONText
import SyncModel

extension MutationRecord {
    /// Writes the members of a result into an open object.
    ///
    /// - Parameter replayed: nil leaves the member out.
    func writeResultMembers(replayed: Bool?, to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("idempotency_key", idempotencyKey)
        writer.member("sequence_number", sequenceNumber)
        writer.member("status", status.wireName)
        if let replayed { writer.member("replayed", replayed) }
        writer.member("revision", Int64(revision))
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
        writer.member("version", version)
        writer.member("etag", etag)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("next_retry_at", nextRetryAt?.rfc3339)
        writer.member("blocked_by", status == .blocked ? dependsOn : [])
        writer.member("resolution", resolution?.rawValue)
        writer.name("response")
        writeResponse(to: &writer)
        writer.member("error", raw: error)
        writer.unreadable(unreadable)
    }

    /// The upstream's answer; the built-in store's is an empty object, for its entities are in the feed.
    private func writeResponse(to writer: inout JSONWriter) {
        guard let responseStatus else { return writer.null() }
        writer.beginObject()
        writer.member("status", Int64(responseStatus))
        writer.name("body")
        if let responseBody {
            writer.raw(responseBody)
        } else if responseStatus == 204 || unreadable.contains("response") || isWithheld {
            writer.null()
        } else {
            writer.beginObject()
            writer.endObject()
        }
        writer.endObject()
    }
}

extension MutationStatus {
    /// The raw value without making a String.
    fileprivate var wireName: StaticString {
        switch self {
        case .pending: "pending"
        case .blocked: "blocked"
        case .inFlight: "in_flight"
        case .succeeded: "succeeded"
        case .conflict: "conflict"
        case .failed: "failed"
        case .discarded: "discarded"
        case .rejected: "rejected"
        }
    }
}

extension JSONWriter {
    /// Writes `local_id` as the device wrote it: its number, or the client id.
    mutating func localID(_ name: ClientName?) {
        switch name {
        case .number(let number, _): member("local_id", number)
        case .id(let id): member("local_id", id)
        case nil: member(null: "local_id")
        }
    }
}
