package import JSONText
import SyncModel
package import SyncStore

extension FeedPage: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("changes", changes)
        writer.member("next", next.text)
        writer.member("up_to_date", isUpToDate)
        if let nextLocalIDs { writer.nextLocalIDs(nextLocalIDs) }
    }
}

extension FeedChange: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("entity_type", entityType)
        writer.member("id", id)
        if let localID {
            writer.member("local_id", localID)
        } else if let clientID {
            writer.member("client_id", clientID)
        }
        writer.member("version", version)
        writer.member("etag", etag)
        writer.member("deleted", isDeleted)
        writer.member("document", raw: document)
        writer.unreadable(isUnreadable ? ["document"] : [])
        writer.member("updated_at", updatedAt.rfc3339)
        writer.member("updated_by", updatedBy)
    }
}
