package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension UserRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("registered", registeredAt != nil)
        writer.member("first_seen_at", firstSeenAt?.rfc3339)
        writer.member("last_seen_at", lastSeenAt?.rfc3339)
        writer.member("subjects", names)
        writer.member("into", into)
    }
}

extension UserRow.Name: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        subject.writeMembers(to: &writer)
        writer.member("first_seen_at", createdAt.rfc3339)
    }
}
