import HTTPTypes
package import JSONText
import SyncModel
package import SyncStore

/// `GET /v1/changes`: the feed that other devices pull.
struct ChangesEndpoint: Sendable {
    /// The default number of changes on a page.
    static let defaultLimit = 500

    let store: Store
    let longestWait: Duration

    /// Responds with a page. If the request has a `wait`, an empty page is delayed until there is a change or the
    /// `wait` is over.
    func page(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let names: Set = ["since", "limit", "entity_type", "channel", "others", "wait"]
        let query = try URLQuery(of: exchange, allowing: names)
        let since = try query.text("since")
        let limit = try query.limit(default: Self.defaultLimit)
        let types = try query.entityTypes("entity_type")
        let channels = try query.channels("channel")
        let others = try query.flag("others")
        let wait = try query.wait(upTo: longestWait)
        let json = try await ClientPresence.reading(on: exchange, wait: wait) { wait in
            try await BlockingWork.run {
                try await store.changes.page(
                    since: since,
                    limit: limit,
                    entityTypes: types,
                    channels: channels,
                    others: others,
                    organization: caller.organization,
                    user: caller.user,
                    wait: wait,
                    room: exchange.hold.room()
                ).json()
            }
        }
        return Answer(.ok, json: json)
    }
}

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
        if isRemoved { return writer.member("removed", true) }
        writer.member("version", version)
        writer.member("etag", etag)
        writer.member("deleted", isDeleted)
        writer.member("document", raw: document)
        writer.unreadable(isUnreadable ? ["document"] : [])
        writer.member("updated_at", updatedAt.rfc3339)
        writer.member("updated_by", updatedBy)
    }
}
