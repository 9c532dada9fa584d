import HTTPTypes
import SyncModel
import SyncStore

/// Reading mutations: `GET /v1/mutations/{id}` and `GET /v1/mutations`.
struct MutationEndpoints: Sendable {
    let store: Store
    let longestWait: Duration

    /// One mutation; with `wait`, once it is settled or the time is over.
    func read(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let id = try exchange.uuid(at: 0)
        let wait = try Query(of: exchange, allowing: ["wait"]).wait(upTo: longestWait)
        let read: @Sendable (Duration) async throws -> [UInt8]? = { wait in
            try await store.mutations.mutation(
                id,
                organization: caller.organization,
                user: caller.user,
                wait: wait,
                room: exchange.hold.room(for: AnswerHold.mutation)
            )
        }
        var found: [UInt8]??
        if wait > .zero { found = try await ClientPresence.whileWaited(on: exchange) { try await read(wait) } }
        // no wait, or one that ended early: the mutation as it is now
        let json = if let found { found } else { try await read(.zero) }
        guard let json else { throw Refusal.notFound }
        return Answer(.ok, json: json)
    }

    /// The caller's mutations in lane order, a page at a time.
    func list(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let names: Set = ["status", "device_id", "entity_type", "limit", "cursor"]
        let query = try Query(of: exchange, allowing: names)
        let filter = MutationFilter(
            statuses: try query.statuses("status"),
            deviceID: try query.uuid("device_id"),
            entityType: try query.entityType("entity_type"),
            limit: try query.limit(default: 100),
            cursor: try query.text("cursor")
        )
        try await exchange.hold.enter()
        let page = try await OffEventLoop.run {
            try await store.mutations.list(filter, organization: caller.organization, user: caller.user)
        }
        return Answer(.ok, json: page)
    }
}
