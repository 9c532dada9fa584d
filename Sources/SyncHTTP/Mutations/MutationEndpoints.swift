import HTTPTypes
import SyncModel
package import SyncStore

/// Reading mutations: `GET /v1/mutations/{id}` and `GET /v1/mutations`.
package struct MutationEndpoints: Sendable {
    package let store: Store
    package let longestWait: Duration

    /// Responds with one mutation; with `wait`, once it is settled or the time is over.
    package func read(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let id = try exchange.uuid(at: 0)
        let wait = try URLQuery(of: exchange, allowing: ["wait"]).wait(upTo: longestWait)
        let json = try await ClientPresence.reading(on: exchange, wait: wait) { wait in
            try await store.mutations.mutation(
                id,
                organization: caller.organization,
                user: caller.user,
                wait: wait,
                room: exchange.hold.room(for: ResponseMemoryLease.mutation)
            )?.json()
        }
        guard let json else { throw Refusal.notFound }
        return Answer(.ok, json: json)
    }

    /// Responds with the caller's mutations in lane order, a page at a time.
    package func list(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let filter = try URLQuery(of: exchange, allowing: URLQuery.mutationFilter).mutationFilter()
        try await exchange.hold.acquire()
        let page = try await BlockingWork.run {
            try await store.mutations.list(filter, organization: caller.organization, user: caller.user).json()
        }
        return Answer(.ok, json: page)
    }
}
