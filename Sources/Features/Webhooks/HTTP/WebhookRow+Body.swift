package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension WebhookEndpointRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("url", url)
        writer.member("description", description)
        writer.member("events", events.map(\.rawValue))
        writer.member("status", status.rawValue)
        writer.member("previous_secret_until", previousSecretUntil?.rfc3339)
        writer.member("failure_count", Int64(failureCount))
        writer.member("failing_since", failingSince?.rfc3339)
        writer.member("paused_until", pausedUntil?.rfc3339)
        writer.member("last_error", lastError)
        writer.member("last_sequence", lastSequence)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension WebhookDeliveryRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("type", event.rawValue)
        writer.member("timestamp", occurredAt.rfc3339)
        writer.member("sequence", sequence)
        writer.member("data", raw: data)
        writer.member("status", status.rawValue)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("next_attempt_at", nextAttemptAt?.rfc3339)
        writer.member("settled_at", settledAt?.rfc3339)
        writer.member("response_status", lastStatus.map(Int64.init))
        writer.member("last_error", lastError)
    }
}
