import HTTPTypes
import SyncModel
package import SyncStore

/// `GET /v1/backlog`: the caller's mutations that are not final, and what holds the lane.
package struct BacklogEndpoint: Sendable {
    package let store: Store

    package func read(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        try await exchange.hold.acquire(ResponseMemoryLease.backlog)
        let json = try await BlockingWork.run {
            try await store.backlog.backlog(organization: caller.organization.id, user: caller.user).json()
        }
        return Answer(.ok, json: json)
    }
}
