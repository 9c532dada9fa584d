import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/audit`: the actions of operators.
struct AuditEndpoint: Sendable {
    let log: AuditLog

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(
            of: exchange,
            allowing: ["organization_id", "actor", "action", "since", "until", "limit", "cursor"]
        )
        var filter = AuditFilter()
        filter.organization = try query.uuid("organization_id")
        filter.actor = try query.plainText("actor", atMost: 64)
        filter.action = try query.plainText("action", atMost: 64)
        filter.since = try query.moment("since")
        filter.until = try query.moment("until")
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard let id = UUID(parsing: text) else { throw .invalidParameter("cursor is invalid") }
            return id
        }
        try await exchange.hold.acquire()
        let page = try await log.page(filter, limit: limit, after: cursor)
        return Answer(.ok, capacity: 64 + 512 * page.acts.count) { writer in
            writer.member("audit", page.acts)
            writer.member("next", page.next)
        }
    }
}

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
