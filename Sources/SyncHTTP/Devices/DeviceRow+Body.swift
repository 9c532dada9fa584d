package import JSONText
import SyncModel
package import SyncStore

extension DeviceRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("device_id", id)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("last_seen_at", lastSeenAt.rfc3339)
        writer.nextLocalIDs(nextLocalIDs)
    }
}

extension JSONWriter {
    /// Writes `next_local_ids`: by entity type, the next number that a device assigns; null where none is left.
    mutating func nextLocalIDs(_ counters: [(type: String, next: Int64?)]) {
        member("next_local_ids") { writer in
            for (type, next) in counters {
                writer.name(type)
                if let next { writer.int(next) } else { writer.null() }
            }
        }
    }
}
