import FoundationEssentials
package import JSONText
package import SyncModel

extension MutationRecord {
    /// Writes the members of a result into an open object.
    ///
    /// - Parameters:
    ///   - replayed: the value of the member `replayed`; nil omits the member.
    ///   - contents: decides which large parts the response contains. It is updated with the parts of this result.
    ///   - place: the JSON Pointer to the result in the response.
    package func writeResultMembers(
        replayed: Bool?,
        _ contents: inout AnswerContents,
        at place: @autoclosure () -> String,
        to writer: inout JSONWriter
    ) {
        let (origin, state, error) = (parts.origin, parts.state, parts.response.error)
        var omitted = parts.gaps.omitted
        writer.member("id", origin.id)
        writer.member("idempotency_key", origin.idempotencyKey)
        writer.member("sequence_number", origin.sequenceNumber)
        writer.member("status", state.status.wireName)
        if let replayed { writer.member("replayed", replayed) }
        writer.member("revision", Int64(state.revision))
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
        writer.member("version", state.version)
        writer.member("etag", state.etag)
        writer.member("attempt_count", Int64(state.attemptCount))
        writer.member("next_retry_at", state.nextRetryAt?.rfc3339)
        let blockers = state.status == .blocked ? state.dependsOn : []
        if contents.takes(blockerBytes) {
            writer.member("blocked_by", blockers)
        } else {
            writer.member("blocked_by", Array(blockers.prefix(WorkBounds.blockers)))
            omitted.append("blocked_by")
        }
        writer.member("resolution", state.resolution?.rawValue)
        writer.name("response")
        let showsBody = parts.response.responseBody.map { contents.takes($0.count) } ?? true
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
        writer.unreadable(parts.gaps.unreadable)
    }

    /// Writes the upstream's response. The body of a response from the built-in store is an empty object, because
    /// devices read the entities in the feed.
    private func writeResponse(showsBody: Bool, to writer: inout JSONWriter) {
        let (response, gaps) = (parts.response, parts.gaps)
        guard let status = response.responseStatus else { return writer.null() }
        writer.beginObject()
        writer.member("status", Int64(status))
        writer.name("body")
        if let body = response.responseBody {
            if showsBody { writer.raw(body) } else { writer.null() }
        } else if status == 204 || gaps.isWithheld || (gaps.omitted + gaps.unreadable).contains("response") {
            writer.null()
        } else {
            writer.beginObject()
            writer.endObject()
        }
        writer.endObject()
    }
}

extension MutationStatus {
    /// Returns the raw value without creating a String.
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
    /// Writes `local_id` in the form that the device used: a number or a UUID.
    package mutating func localID(_ name: ClientName?) {
        switch name {
        case .number(let number, _): member("local_id", number)
        case .id(let id): member("local_id", id)
        case nil: member(null: "local_id")
        }
    }
}

extension PushVerdict {
    /// Writes the members of an entry's result into an open object.
    ///
    /// - Parameters:
    ///   - entry: the ids that identify the entry in its result. They are used only if the entry was rejected.
    ///   - contents: decides which large parts the response contains. It is updated with the parts of this result.
    ///   - index: the index of the result in the response.
    package func writeResultMembers(
        of entry: @autoclosure () -> EntryName,
        _ contents: inout AnswerContents,
        at index: Int,
        to writer: inout JSONWriter
    ) {
        switch self {
        case .accepted(let record):
            record.writeResultMembers(replayed: false, &contents, at: "/results/\(index)", to: &writer)
        case .replayed(let record):
            record.writeResultMembers(replayed: true, &contents, at: "/results/\(index)", to: &writer)
        case .rejected(let problem):
            contents.allowance.count(problem.errors.count)
            Self.writeRejected(entry(), problem.json, replayed: false, to: &writer)
        case .rejectedBefore(let error):
            Self.writeRejected(entry(), contents.shortened(rejection: error), replayed: true, to: &writer)
        }
    }

    private static func writeRejected(
        _ entry: EntryName,
        _ error: [UInt8],
        replayed: Bool,
        to writer: inout JSONWriter
    ) {
        writer.member("id", entry.id)
        writer.member("idempotency_key", entry.idempotencyKey)
        writer.member("sequence_number", entry.sequenceNumber)
        writer.member("status", "rejected" as StaticString)
        writer.member("replayed", replayed)
        writer.member(null: "revision")
        writer.localID(entry.entity?.client)
        writer.member("server_id", entry.entity?.serverID)
        writer.member(null: "version")
        writer.member(null: "etag")
        writer.member("attempt_count", 0 as Int64)
        writer.member(null: "next_retry_at")
        writer.member("blocked_by", [UUID]())
        writer.member(null: "resolution")
        writer.member(null: "response")
        writer.member("error", raw: error)
    }
}

extension JSONWriter {
    /// Writes the member `warnings` of a result. If there is no warning, nothing is written.
    package mutating func warning(_ warning: PushWarning?, at index: Int) {
        guard let warning else { return }
        member("warnings", [warning]) { writer, warning in
            writer.beginObject()
            switch warning {
            case .clientIDWasData:
                writer.member("code", "client_id_was_data" as StaticString)
                writer.member("pointer", "/mutations/\(index)/local_id")
                let detail =
                    "an earlier mutation of this device contains this id. No entity had this id at that time, so the "
                    + "id was stored as data and is not replaced by a server id. Send the create of an entity before "
                    + "mutations that refer to the entity, or correct the entity that contains the id"
                writer.member("detail", detail)
            }
            writer.endObject()
        }
    }
}

// MARK: - AnswerContents

/// Decides which entities, upstream response bodies and lists of blocking mutations a response contains.
///
/// These decisions bound the size of the response. The error of a conflict contains the current state of the entity
/// (`current`). A response contains this state once, and a later error about the same state contains a pointer to it
/// (`current_at`). If the state differs, or if the response has no room for the state, the error contains the mark
/// `current_omitted` instead.
package struct AnswerContents {
    /// The part of an error that a result contains.
    package enum Shown {
        case whole
        case cut([UInt8])
        /// There is no room for the error.
        case nothing
    }

    /// The number of bytes of contents that the response may still contain.
    private var room: Int
    /// The JSON Pointer to each entity in the response, and the entity's state at that place.
    private var places: [EntityKey: (place: String, state: [UInt8])] = [:]
    /// The number of errors of rejected entries that the response may still list.
    fileprivate var allowance = ErrorAllowance()

    /// - Parameter room: the maximum number of bytes of contents. A part of at most ``WorkBounds/small`` bytes does not
    ///   count.
    package init(room: Int = WorkBounds.answer) {
        self.room = room
    }

    /// Decides about an error, which is a problem object as JSON.
    ///
    /// - Parameter pointer: the JSON Pointer to the error in the response.
    package mutating func show(error: [UInt8], at pointer: @autoclosure () -> String) -> Shown {
        guard let outline = CurrentOutline(error) else { return takes(error.count) ? .whole : .nothing }
        if let first = places[outline.key] {
            return .cut(CurrentOutline.cut(error, place: first.state == outline.state ? first.place : nil))
        }
        guard outline.isWhole, takes(error.count) else { return .cut(CurrentOutline.cut(error, place: nil)) }
        places[outline.key] = (pointer() + "/current", outline.state)
        return .whole
    }

    /// Returns the stored problem of a rejected entry, without the errors that the response has no room to list.
    ///
    /// Several pushes may have rejected the entries, and each of these pushes listed as many errors as a response may
    /// have.
    fileprivate mutating func shortened(rejection problem: [UInt8]) -> [UInt8] {
        guard let root = (try? JSONTree(parsing: problem, limits: .widest))?.root, let members = root.members,
            let errors = root["errors"]?.elements.map(Array.init)
        else { return problem }
        let listed = errors.prefix(allowance.nextEntry)
        allowance.count(listed.count)
        guard listed.count < errors.count else { return problem }
        let omitted = Int64(errors.count - listed.count) + (root["errors_omitted"]?.int64 ?? 0)
        return JSONWriter.object(capacity: problem.count) { writer in
            for (name, value) in members where !name.equals("errors_omitted") {
                writer.name(name.string)
                guard name.equals("errors") else {
                    writer.value(value)
                    continue
                }
                writer.beginArray()
                for error in listed { writer.value(error) }
                writer.endArray()
            }
            writer.member("errors_omitted", omitted)
        }
    }

    /// Returns whether the response has room for a value of this size. If it has, the room is taken.
    package mutating func takes(_ bytes: Int) -> Bool {
        guard bytes > WorkBounds.small else { return true }
        guard bytes <= room else { return false }
        room -= bytes
        return true
    }
}

extension MutationRecord {
    /// The size of the mutation's large members in a response, in bytes.
    package var contentBytes: Int {
        [parts.response.error?.count ?? 0, parts.response.responseBody?.count ?? 0, blockerBytes].filter {
            $0 > WorkBounds.small
        }.reduce(0, +)
    }
}
