package import JSONText
package import SyncModel

extension MutationRecord {
    /// Writes the members of a result into an open object.
    ///
    /// - Parameters:
    ///   - replayed: nil leaves the member out.
    ///   - contents: the contents for which the response has room.
    ///   - place: the result's place in the response (RFC 6901).
    package func writeResultMembers(
        replayed: Bool?,
        _ contents: inout AnswerContents,
        at place: @autoclosure () -> String,
        to writer: inout JSONWriter
    ) {
        var omitted = omitted
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
        let blockers = status == .blocked ? dependsOn : []
        if contents.takes(blockerBytes) {
            writer.member("blocked_by", blockers)
        } else {
            writer.member("blocked_by", Array(blockers.prefix(WorkBounds.blockers)))
            omitted.append("blocked_by")
        }
        writer.member("resolution", resolution?.rawValue)
        writer.name("response")
        let showsBody = responseBody.map { contents.takes($0.count) } ?? true
        if !showsBody { omitted.append("response") }
        writeResponse(showsBody: showsBody, to: &writer)
        switch error.map({ contents.show(error: $0, at: place() + "/error") }) {
        case .whole?: writer.member("error", raw: error)
        case .cut(let error)?: writer.member("error", raw: error)
        case .nothing?:
            writer.member(null: "error")
            omitted.append("error")
        case nil: writer.member(null: "error")
        }
        if !omitted.isEmpty { writer.member("omitted", omitted) }
        writer.unreadable(unreadable)
    }

    /// Writes the upstream's response; the built-in store's is an empty object, for its entities are in the feed.
    private func writeResponse(showsBody: Bool, to writer: inout JSONWriter) {
        guard let responseStatus else { return writer.null() }
        writer.beginObject()
        writer.member("status", Int64(responseStatus))
        writer.name("body")
        if let responseBody {
            if showsBody { writer.raw(responseBody) } else { writer.null() }
        } else if omitted.contains("response") || responseStatus == 204 || unreadable.contains("response") || isWithheld
        {
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
    package mutating func localID(_ name: ClientName?) {
        switch name {
        case .number(let number, _): member("local_id", number)
        case .id(let id): member("local_id", id)
        case nil: member(null: "local_id")
        }
    }
}
