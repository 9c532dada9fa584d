package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension ServiceTokenRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("source", source)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("last_used_at", lastUsedAt?.rfc3339)
        writer.member("revoked_at", revokedAt?.rfc3339)
    }
}
