import HTTPTypes
import SyncStore

/// `GET /v1/changes`: the feed that other devices pull.
struct ChangesEndpoint: Sendable {
    /// Changes on a page, unless the caller says.
    static let defaultLimit = 500

    let store: Store

    func page(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let query = try Query(of: exchange, allowing: ["since", "limit", "entity_type"])
        let page = try await store.changes.page(
            since: try query.text("since"),
            limit: try query.limit(default: Self.defaultLimit),
            entityTypes: try query.entityTypes("entity_type"),
            organization: caller.organization,
            user: caller.user
        )
        return Answer(.ok, json: page)
    }
}
