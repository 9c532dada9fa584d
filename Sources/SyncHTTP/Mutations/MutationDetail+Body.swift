package import JSONText
import SyncModel
package import SyncStore

extension MutationDetail: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        record.writeResultMembers(replayed: nil, to: &writer)
        writer.member("user_id", user)
        writer.member("device_id", record.deviceID)
        writer.member("operation", record.operation.rawValue)
        writer.member("entity_type", record.entity.type)
        writer.member("endpoint", record.isWithheld ? nil : endpoint)
        writer.member("payload", raw: payload)
        writer.member("headers", raw: headers)
        writer.member("dependency_ids", dependencyIDs)
        writer.member("priority", Int64(priority))
        writer.member("max_attempts", Int64(maxAttempts))
        writer.member("conflict_resolution", conflictResolution)
        writer.member("base_version", baseVersion)
        writer.member("last_error", lastError)
        writer.member("last_error_code", lastErrorCode.map(Int64.init))
        writer.member("created_at", createdAt.rfc3339)
        writer.member("accepted_at", record.acceptedAt.rfc3339)
        writer.member("synced_at", record.syncedAt?.rfc3339)
        writer.member("stale", isStale)
    }
}

extension MutationPage: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutations", mutations)
        writer.member("next", next)
    }
}
