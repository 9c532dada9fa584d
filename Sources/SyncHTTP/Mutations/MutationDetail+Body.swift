package import JSONText
import SyncModel
package import SyncStore

extension MutationDetail: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        // the bound of a response is for many: one mutation is always shown completely
        var contents = AnswerContents(room: .max)
        writeMembers(&contents, at: "", to: &writer)
    }

    /// - Parameter place: the mutation's place in the response (RFC 6901).
    package func writeMembers(
        _ contents: inout AnswerContents,
        at place: @autoclosure () -> String,
        to writer: inout JSONWriter
    ) {
        record.writeResultMembers(replayed: nil, &contents, at: place(), to: &writer)
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
        for (column, value) in zip(MutationColumn.shown, shown) { writer.member(column.name, raw: value.utf8) }
    }
}

extension MutationPage: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        // the page ends at the bound of its bytes already
        var contents = AnswerContents(room: .max)
        writer.member("mutations", mutations.enumerated()) { writer, mutation in
            writer.object {
                mutation.element.writeMembers(&contents, at: "/mutations/\(mutation.offset)", to: &$0)
            }
        }
        writer.member("next", next)
    }
}
