import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/audit`: what operators did.
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
