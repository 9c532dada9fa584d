package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// An endpoint as operators see it, without its secrets.
package struct WebhookEndpointRow: Sendable {
    package enum Status: String, Sendable, Hashable, CaseIterable {
        case enabled
        /// No deliveries are recorded or sent.
        case disabled
        /// The endpoint responded with 410. It is treated as disabled until an operator enables it again.
        case gone
    }

    package let id: UUID
    package let url: String
    package let description: String
    package let events: [WebhookEvent]
    package let status: Status
    /// The time until which the previous secret also signs; nil if there is no previous secret.
    package let previousSecretUntil: Timestamp?
    /// The number of failed attempts since the last success.
    package let failureCount: Int32
    package let failingSince: Timestamp?
    /// The time before which nothing is sent.
    package let pausedUntil: Timestamp?
    package let lastError: String?
    /// The sequence number of the last numbered delivery; 0 before the first.
    package let lastSequence: Int64
    package let createdAt: Timestamp
    package let updatedAt: Timestamp

    /// The columns of the row, for a table with the alias `e`.
    static let list = """
        e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
            e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at
        """

    init(_ row: inout RowReader) throws {
        id = try row.read("id")
        url = try row.read("url")
        description = try row.read("description")
        events = try row.read("events", as: [String].self).compactMap(WebhookEvent.init(rawValue:))
        status = try row.choice("status")
        previousSecretUntil = try row.read("previous_until")
        failureCount = try row.read("failure_count")
        failingSince = try row.read("failing_since")
        pausedUntil = try row.read("paused_until")
        lastError = try row.read("last_error")
        lastSequence = try row.read("last_sequence")
        createdAt = try row.read("created_at")
        updatedAt = try row.read("updated_at")
    }
}

/// A delivery as operators see it.
package struct WebhookDeliveryRow: Sendable {
    package let id: UUID
    package let event: WebhookEvent
    /// The event's data as a JSON object.
    package let data: [UInt8]
    package let occurredAt: Timestamp
    /// The delivery's sequence number; nil until a worker first claims the delivery.
    package let sequence: Int64?
    package let status: WebhookOutcome.Status
    package let attemptCount: Int16
    /// The time of the next attempt; nil without a next attempt.
    package let nextAttemptAt: Timestamp?
    /// The time at which the message was delivered, or the delivery was given up.
    package let settledAt: Timestamp?
    package let lastStatus: Int16?
    package let lastError: String?

    /// The columns of the row, for a table with the alias `d`.
    static let list = """
        d.id, d.event, d.data, d.occurred_at, d.sequence, d.status, d.attempt_count,
            CASE WHEN d.status = 'waiting' THEN d.next_attempt_at END AS next_attempt_at, d.settled_at, d.last_status,
            d.last_error
        """

    init(_ row: inout RowReader) throws {
        id = try row.read("id")
        event = try row.choice("event")
        data = try row.read("data")
        occurredAt = try row.read("occurred_at")
        sequence = try row.read("sequence")
        status = try row.choice("status")
        attemptCount = try row.read("attempt_count")
        nextAttemptAt = try row.read("next_attempt_at")
        settledAt = try row.read("settled_at")
        lastStatus = try row.read("last_status")
        lastError = try row.read("last_error")
    }
}

/// A change of an endpoint, or a new endpoint. If a member is nil, an existing endpoint keeps its value, and a new
/// endpoint gets the default.
package struct WebhookUpdate: Sendable {
    package var url: String?
    package var description: String?
    package var events: [WebhookEvent]?
    package var isEnabled: Bool?

    package init() {}
}
