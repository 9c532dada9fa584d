package import FoundationEssentials
import JSONText
package import SyncModel

/// The events that an organization may subscribe to.
package enum WebhookEvent: String, Sendable, Hashable, CaseIterable {
    /// A mutation failed, and waits for a person.
    case mutationFailed = "mutation.failed"
    /// A mutation is in conflict, and waits for a person.
    case mutationConflict = "mutation.conflict"
    /// A user's lane is halted until a person settles a mutation.
    case laneHalted = "lane.halted"
    /// No requests are sent to the organization's upstream for a while.
    case upstreamDown = "upstream.down"
    /// Requests are sent to the organization's upstream again.
    case upstreamUp = "upstream.up"
    /// All data of a user were erased.
    case userErased = "user.erased"
    /// An entity has changed.
    case entityChanged = "entity.changed"
    /// An operator tests the endpoint.
    case test = "webhook.test"

    /// The events to which an endpoint may subscribe.
    package static let subscribable = allCases.filter { $0 != .test }
    /// The default subscription of an endpoint: all events except `entity.changed`, which every write causes.
    package static let defaults = subscribable.filter { $0 != .entityChanged }
}

/// An event that is delivered to those of its organization's endpoints that subscribe to events of this kind.
package struct WebhookRecord: Sendable, Hashable {
    /// The event's id, which is the same at all endpoints and in all attempts.
    package let id: UUID
    package let organization: UUID
    package let event: WebhookEvent
    /// A JSON object: names and numbers, never the content of a document.
    package let data: [UInt8]

    package init(id: UUID, organization: UUID, event: WebhookEvent, data: [UInt8]) {
        self.id = id
        self.organization = organization
        self.event = event
        self.data = data
    }
}

extension WebhookRecord {
    /// Returns the events of a mutation's outcome.
    ///
    /// If the mutation waits for a person, the result contains an event for the outcome. If the mutation also halts its
    /// lane, the result contains an event for the halt. For other mutations, the result is empty.
    ///
    /// - Parameters:
    ///   - state: the state of the lane, which shows whether the mutation halts the lane now.
    ///   - makeID: returns an id of version 7 that is greater than all earlier ids, because events are numbered in the
    ///     order of their ids.
    fileprivate static func records(
        of outcome: EventSubject<some EntityWrite>,
        in lane: LaneKey,
        _ state: LaneState,
        makeID: () -> UUID
    ) -> [WebhookRecord] {
        let event: WebhookEvent
        switch outcome.status {
        case .failed: event = .mutationFailed
        case .conflict: event = .mutationConflict
        default: return []
        }
        let data = JSONWriter.object { writer in
            writer.member("user_id", lane.user)
            writer.member("device_id", outcome.device)
            writer.member("mutation_id", outcome.id)
            writer.member("operation", outcome.mutation.operation.rawValue)
            writer.member("entity_type", outcome.mutation.entity.type)
            switch outcome.mutation.entity.client {
            case .id(let id): writer.member("local_id", id)
            case .number(let number, _): writer.member("local_id", number)
            case nil: writer.member(null: "local_id")
            }
            writer.member("server_id", outcome.mutation.entity.serverID)
            writer.member("attempt_count", Int64(outcome.attempts))
            writer.member("response_status", outcome.responseStatus.map(Int64.init))
            writer.member("code", outcome.error.flatMap(Self.code))
        }
        var records = [WebhookRecord(id: makeID(), organization: lane.organization, event: event, data: data)]
        if state.haltedBy == outcome.id {
            let halted = JSONWriter.object { writer in
                writer.member("user_id", lane.user)
                writer.member("mutation_id", outcome.id)
            }
            records.append(
                WebhookRecord(id: makeID(), organization: lane.organization, event: .laneHalted, data: halted)
            )
        }
        return records
    }

    /// Returns the code of a stored problem. The problem's text is omitted, because it may quote user content.
    private static func code(of problem: [UInt8]) -> String? {
        (try? JSONTree(parsing: problem))?.root.members?.first { $0.name.string == "code" }?.value.string
    }

    /// The event of an upstream that became unavailable, or available again.
    package static func upstream(isDown: Bool, of organization: UUID, reason: String?, id: UUID) -> WebhookRecord {
        let data = JSONWriter.object { writer in
            if isDown { writer.member("reason", reason) }
        }
        return WebhookRecord(
            id: id,
            organization: organization,
            event: isDown ? .upstreamDown : .upstreamUp,
            data: data
        )
    }

    /// Returns the event of a complete erasure of a user.
    package static func erased(user: UUID, of organization: UUID, id: UUID) -> WebhookRecord {
        let data = JSONWriter.object { $0.member("user_id", user) }
        return WebhookRecord(id: id, organization: organization, event: .userErased, data: data)
    }

    /// Returns the event of an operator's test of an endpoint.
    package static func test(of organization: UUID, id: UUID) -> WebhookRecord {
        WebhookRecord(id: id, organization: organization, event: .test, data: Array("{}".utf8))
    }
}

/// The members of a mutation's outcome that its events contain.
private struct EventSubject<Write: EntityWrite> {
    let mutation: Write
    let id: UUID
    let device: UUID
    let status: MutationStatus
    let attempts: Int16
    let responseStatus: Int16?
    let error: [UInt8]?
}

extension LaneOutcome {
    /// The events for endpoints; see ``WebhookRecord``.
    package func records(of lane: LaneKey, _ state: LaneState, _ makeID: () -> UUID) -> [WebhookRecord] {
        guard let status, status.isForAPerson else { return [] }
        let subject = EventSubject(
            mutation: mutation,
            id: mutation.id,
            device: mutation.deviceID,
            status: status,
            attempts: outcome.attemptCount,
            responseStatus: outcome.responseStatus ?? outcome.lastErrorCode,
            error: outcome.error
        )
        return WebhookRecord.records(of: subject, in: lane, state, makeID: makeID)
    }
}

extension NewMutation {
    /// The events for endpoints; see ``WebhookRecord``.
    package func records(of lane: LaneKey, _ state: LaneState, _ makeID: () -> UUID) -> [WebhookRecord] {
        let subject = EventSubject(
            mutation: record,
            id: record.id,
            device: record.deviceID,
            status: record.status,
            attempts: record.attemptCount,
            responseStatus: record.responseStatus,
            error: record.error
        )
        return WebhookRecord.records(of: subject, in: lane, state, makeID: makeID)
    }
}

extension WebhookDelivery {
    /// The id of the message, in the form of its header.
    package var messageID: String { id.lowercased }

    /// Returns the body that is signed and sent. It has the same bytes in all attempts.
    package func body(of organization: UUID) -> [UInt8] {
        JSONWriter.object(capacity: data.count + 200) { writer in
            writer.member("type", event.rawValue)
            writer.member("timestamp", occurredAt.rfc3339)
            writer.member("sequence", sequence)
            writer.member("organization_id", organization)
            writer.member("data", raw: data)
        }
    }
}
