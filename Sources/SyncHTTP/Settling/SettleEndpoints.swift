import Foundation
import HTTPTypes
import Metrics
import SyncModel
import SyncStore

/// A user's decisions about a mutation that stands still: `POST /v1/mutations/{id}/retry`, `…/discard`, `…/resolve`.
/// Each answers the mutation in its new state.
struct SettleEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    let limits: IntakeLimits
    private let metrics = SettleMetrics()

    init(store: Store, bodies: BodyReader, limits: IntakeLimits) {
        self.store = store
        self.bodies = bodies
        self.limits = limits
    }

    func retry(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        try await settle(exchange, metrics.retried, RetryRequest.init) { id, request in
            try await store.settling.retry(id, request, organization: caller.organization, user: caller.user)
                .map { ($0.json(), 1) }
        }
    }

    func discard(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        try await settle(exchange, metrics.discarded, DiscardRequest.init) { id, request in
            try await store.settling.discard(id, request, organization: caller.organization, user: caller.user)
                .map { ($0.json(), $0.ids.count) }
        }
    }

    func resolve(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        try await settle(exchange, isBodyOptional: false, metrics.resolved, ResolveRequest.init) { id, request in
            try await store.settling.resolve(id, request, organization: caller.organization, user: caller.user)
                .map { ($0.json(), 1) }
        }
    }

    /// - Parameter settle: answers the mutation and how many were settled; nil for another user's mutation, which is
    ///   answered as not found.
    private func settle<Request: Sendable>(
        _ exchange: Exchange,
        isBodyOptional: Bool = true,
        _ counter: Counter,
        _ read: @escaping @Sendable ([UInt8], IntakeLimits) throws(Problem) -> Request,
        _ settle: @Sendable (UUID, Request) async throws -> (json: [UInt8], count: Int)?
    ) async throws -> Answer {
        _ = try Query(of: exchange)
        let id = try exchange.uuid(at: 0)
        let limits = limits
        return try await bodies.withBody(of: exchange, isOptional: isBodyOptional) { body in
            let request = try await OffEventLoop.read(body) { body throws(Problem) in try read(body, limits) }
            let settled = try await OffEventLoop.run { try await settle(id, request) }
            guard let settled else { throw Refusal.notFound }
            counter.increment(by: settled.count)
            return Answer(.ok, json: settled.json)
        }
    }
}
