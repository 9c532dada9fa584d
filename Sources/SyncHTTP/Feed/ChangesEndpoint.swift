import HTTPTypes
import SyncStore

/// `GET /v1/changes`: the feed that other devices pull.
struct ChangesEndpoint: Sendable {
    /// Changes on a page, unless the caller says.
    static let defaultLimit = 500

    let store: Store
    let longestWait: Duration

    /// A page; with `wait` an empty one is held until something shows or the time is over.
    func page(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let query = try Query(of: exchange, allowing: ["since", "limit", "entity_type", "wait"])
        let since = try query.text("since")
        let limit = try query.limit(default: Self.defaultLimit)
        let types = try query.entityTypes("entity_type")
        let wait = try query.wait(upTo: longestWait)
        let read: @Sendable (Duration) async throws -> [UInt8] = { wait in
            try await OffEventLoop.run {
                try await store.changes.page(
                    since: since,
                    limit: limit,
                    entityTypes: types,
                    organization: caller.organization,
                    user: caller.user,
                    wait: wait,
                    room: exchange.hold.room()
                )
            }
        }
        var page: [UInt8]?
        if wait > .zero { page = try await ClientPresence.whileWaited(on: exchange) { try await read(wait) } }
        // no wait, or one that ended early: the feed as it is now
        let json = if let page { page } else { try await read(.zero) }
        return Answer(.ok, json: json)
    }
}
