package import Foundation
package import JSONText

/// What a push is answered with.
package struct PushAnswer: Sendable {
    /// The device's watermark: the highest number judged.
    package var acceptedSequence: Int64
    /// A pull that has reached this cursor has seen what the push did.
    package var feed: String
    /// What is answered.
    private var subject: Subject
    /// In request order.
    package var verdicts: [PushVerdict]
    /// Resolved mappings of this user that the batch touches.
    package var mappings: [IDMapping]

    /// Creates the value.
    package init(
        acceptedSequence: Int64,
        feed: String,
        push: PushRequest,
        verdicts: [PushVerdict],
        mappings: [IDMapping]
    ) {
        self.acceptedSequence = acceptedSequence
        self.feed = feed
        subject = .push(push)
        self.verdicts = verdicts
        self.mappings = mappings
    }

    /// By place in the request.
    package var warnings: [Int: PushWarning] = [:]

    /// Blocked mutations that a settled one blocks, so that nothing but a person moves them: settled as well.
    package var stuck: Set<UUID> = []

    /// The lane as the push found it, or as it was when the push had halted it.
    package var lane = LaneState()

    /// What keeps the head of the user's lane from running, so that what is behind it waits; nil where nothing does, where
    /// all that is queued waits for other mutations, and where it could not be found out.
    package var hold: LaneHold?

    /// What is left of the user's quota; nil where there is none.
    package var standing: QuotaStanding?

    /// Mutations that are not settled: a `wait` goes on while there are any.
    package var unsettled: [UUID] {
        verdicts.compactMap(\.record).filter { !$0.status.isSettled && !stuck.contains($0.id) }.map(\.id)
    }

    /// Which mappings the answer shows once they are resolved.
    package var touched: TouchedMappings {
        switch subject {
        case .push(let push): TouchedMappings(push)
        case .names(_, let touched): touched
        }
    }

    /// The same without the push's body: for an answer that is held for long.
    package func withoutBody() -> PushAnswer {
        guard case .push(let push) = subject else { return self }
        var answer = self
        let names = zip(push.entries, verdicts).map { $1.record == nil ? EntryName($0) : nil }
        answer.subject = .names(names, TouchedMappings(push))
        return answer
    }

    /// What is answered: a push as it came, or what an answer needs to know of it.
    private enum Subject: Sendable {
        case push(PushRequest)
        /// The names of entries that have no record, by index.
        case names([EntryName?], TouchedMappings)

        /// The name of an entry; only of those that have no record.
        func entry(_ index: Int) -> EntryName {
            switch self {
            case .push(let push): EntryName(push.entries[index])
            case .names(let names, _): names[index] ?? EntryName()
            }
        }
    }

    /// The body, JSON.
    package func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.bytes.reserveCapacity(256 + verdicts.count * 512)
        writer.beginObject()
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("feed", feed)
        writer.heldBy(hold)
        writer.name("results")
        writer.beginArray()
        for (index, verdict) in verdicts.enumerated() {
            writer.beginObject()
            verdict.writeResultMembers(of: subject.entry(index), to: &writer)
            if let warning = warnings[index] { writer.warnings([warning], at: index) }
            writer.endObject()
        }
        writer.endArray()
        writer.idMappings(mappings)
        writer.endObject()
        return writer.bytes
    }
}

/// What a rejected entry is answered with of itself: as far as it could be read.
struct EntryName: Sendable {
    var id: UUID?
    var idempotencyKey: UUID?
    var sequenceNumber: Int64?
    var entity: EntityName?

    init() {}

    init(_ entry: PushEntry) {
        id = entry.id
        idempotencyKey = entry.idempotencyKey
        sequenceNumber = entry.sequenceNumber
        entity = entry.mutation?.entity
    }
}

extension PushVerdict {
    /// The mutation's record, unless the entry was rejected.
    package var record: MutationRecord? {
        switch self {
        case .accepted(let record), .replayed(let record): record
        case .rejected, .rejectedBefore: nil
        }
    }

    /// The entry's status, for metrics and logs.
    package var status: MutationStatus { record?.status ?? .rejected }

    /// Whether the answer is a repetition of an earlier one.
    package var isReplay: Bool {
        switch self {
        case .replayed, .rejectedBefore: true
        case .accepted, .rejected: false
        }
    }

    /// Writes the members of an entry's result into an object that is open.
    ///
    /// - Parameter entry: asked for the entry's name where there is no record.
    func writeResultMembers(of entry: @autoclosure () -> EntryName, to writer: inout JSONWriter) {
        switch self {
        case .accepted(let record): record.writeResultMembers(replayed: false, to: &writer)
        case .replayed(let record): record.writeResultMembers(replayed: true, to: &writer)
        case .rejected(let problem): Self.writeRejected(entry(), problem.json, replayed: false, to: &writer)
        case .rejectedBefore(let error): Self.writeRejected(entry(), error, replayed: true, to: &writer)
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
        writer.name("revision")
        writer.null()
        writer.localID(entry.entity?.client)
        writer.member("server_id", entry.entity?.serverID)
        writer.member(null: "version")
        writer.member(null: "etag")
        writer.member("attempt_count", 0 as Int64)
        writer.name("next_retry_at")
        writer.null()
        writer.name("blocked_by")
        writer.beginArray()
        writer.endArray()
        writer.name("resolution")
        writer.null()
        writer.name("response")
        writer.null()
        writer.name("error")
        writer.raw(error)
    }
}

extension MutationRecord {
    /// Writes the members of a result into an object that is open.
    package func writeResultMembers(replayed: Bool?, to writer: inout JSONWriter) {
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
        writer.name("blocked_by")
        writer.beginArray()
        if status == .blocked {
            for id in dependsOn { writer.uuid(id) }
        }
        writer.endArray()
        writer.member("resolution", resolution?.rawValue)
        writer.name("response")
        writeResponse(to: &writer)
        writer.name("error")
        if let error { writer.raw(error) } else { writer.null() }
        writer.unreadable(unreadable)
    }

    /// The upstream's answer; the built-in store's is an empty object, for what it holds stands in the feed.
    private func writeResponse(to writer: inout JSONWriter) {
        guard let responseStatus else { return writer.null() }
        writer.beginObject()
        writer.member("status", Int64(responseStatus))
        writer.name("body")
        if let responseBody {
            writer.raw(responseBody)
        } else if responseStatus == 204 || unreadable.contains("response") {
            writer.null()
        } else {
            writer.beginObject()
            writer.endObject()
        }
        writer.endObject()
    }
}

extension JSONWriter {
    /// Writes the member `warnings` of a result; of most there is none.
    mutating func warnings(_ warnings: [PushWarning], at index: Int) {
        name("warnings")
        beginArray()
        for warning in warnings {
            beginObject()
            switch warning {
            case .clientIDWasData:
                member("code", "client_id_was_data" as StaticString)
                member("pointer", "/mutations/\(index)/local_id")
                let detail =
                    "an earlier mutation of this device names this id: nobody had created it then, so there it is data and"
                    + " no server id takes its place; send creates before what names them, or correct that entity"
                member("detail", detail)
            }
            endObject()
        }
        endArray()
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
    /// Writes the member `unreadable`: the names of those that are stored and cannot be opened; nothing where all can.
    package mutating func unreadable(_ names: [String]) {
        guard !names.isEmpty else { return }
        name("unreadable")
        beginArray()
        for name in names { string(name) }
        endArray()
    }

    /// Writes the member `id_mappings`, as every answer that has it shows it.
    package mutating func idMappings(_ mappings: [IDMapping]) {
        name("id_mappings")
        beginArray()
        for mapping in mappings { mapping.write(to: &self) }
        endArray()
    }
}

extension IDMapping {
    /// Writes the mapping as answers show it.
    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("entity_type", entityType)
        switch client {
        case .id(let id): writer.member("client_id", id)
        case .number(let number, _): writer.member("client_id", number)
        }
        writer.member("server_id", serverID)
        writer.member("status", status.rawValue)
        writer.endObject()
    }
}
