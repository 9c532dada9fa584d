package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension AuditRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("at", at.rfc3339)
        writer.member("organization_id", organization)
        writer.member("actor", actor)
        writer.member("scope", scope)
        writer.member("action", action)
        writer.member("reason", reason)
        writer.member("target", object: writeTarget)
        writer.member("outcome", raw: outcome)
        writer.member("request_id", requestID)
    }

    private func writeTarget(to writer: inout JSONWriter) {
        if let user { writer.member("user", user.text) }
        if let into { writer.member("into", into.text) }
        guard let members = (try? JSONTree(parsing: target))?.root.members else { return }
        for (name, value) in members {
            writer.name(name.string)
            writer.value(value)
        }
    }
}
