import HTTPTypes
import SyncStore

/// `GET /v1/changes`: the feed that other devices pull.
struct ChangesEndpoint: Sendable {
    /// Changes on a page, unless the caller says.
    static let defaultLimit = 500

    let store: Store

    func page(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let query = try Query(of: exchange, allowing: ["since", "limit", "entity_type"])
        let since = try query.text("since")
        let limit = try query.limit(default: Self.defaultLimit)
        let types = try query.entityTypes("entity_type")
        let page = try await LongWork.run {
            try await store.changes.page(
                since: since,
                limit: limit,
                entityTypes: types,
                organization: caller.organization,
                user: caller.user
            )
        }
        return Answer(.ok, json: page)
    }
}
