package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension OrganizationRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("name", name)
        writer.member("status", status.rawValue)
        writer.name("settings")
        settings.write(to: &writer)
        writer.member("external_ids", externalIDs)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension ExternalID: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("issuer", issuer.string)
        writer.member("external_id", id.string)
    }
}
