import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// What operators see of one user: `…/users/{user}/lane`, and `…/users/{user}/explain`.
struct UserInsightEndpoints: Sendable {
    let store: Store

    /// The lane in order, what holds it, and how far the user's devices are.
    func lane(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["limit", "cursor"])
        let (limit, cursor) = try (query.limit(default: 100), query.text("cursor"))
        let (organization, user) = try await store.catalog.owner(of: exchange)
        let lane = LaneKey(organization: organization.id, user: user)
        try await exchange.hold.acquire()
        let json = try await BlockingWork.run {
            let page = try await store.laneListing.page(of: lane, limit: limit, cursor: cursor)
            let backlog = try await store.backlog.backlog(organization: lane.organization, user: lane.user)
            return LaneAnswer(user: user, page: page, backlog: backlog).json()
        }
        return Answer(.ok, json: json)
    }

    func explain(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["mutation", "device"])
        let (mutation, device) = try (query.uuid("mutation"), query.uuid("device"))
        let (id, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let organization = try await store.catalog.organization(id) else { throw Refusal.notFound }
        try await exchange.hold.acquire(ResponseMemoryLease.backlog)
        let json = try await BlockingWork.run {
            try await store.explainer.explanation(of: user, in: organization, mutation: mutation, device: device).json()
        }
        return Answer(.ok, json: json)
    }
}
