import HTTPTypes
import Metrics
import SyncModel
import SyncStore

/// What a user does about a mutation that stands still: `POST /v1/mutations/{id}/retry`, `…/discard`, `…/resolve`. Each
/// answers the mutation as it then is.
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
        _ = try Query(of: exchange)
        let id = try exchange.uuid(at: 0)
        let limits = limits
        return try await bodies.withOptionalBody(of: exchange) { body in
            let request = try await OffEventLoop.read(body) { body throws(Problem) in
                try RetryRequest(body: body, limits: limits)
            }
            let mutation = try await OffEventLoop.run {
                try await store.settling.retry(
                    id,
                    request,
                    organization: caller.organization,
                    user: caller.user
                )
            }
            return try answer(mutation) { metrics.retried.increment() }
        }
    }

    func discard(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let id = try exchange.uuid(at: 0)
        return try await bodies.withOptionalBody(of: exchange) { body in
            let request = try DiscardRequest(body: body, limits: limits)
            let discarded = try await OffEventLoop.run {
                try await store.settling.discard(
                    id,
                    request,
                    organization: caller.organization,
                    user: caller.user
                )
            }
            return try answer(discarded?.json) { metrics.discarded.increment(by: discarded?.count ?? 0) }
        }
    }

    func resolve(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let id = try exchange.uuid(at: 0)
        let limits = limits
        return try await bodies.withBody(of: exchange) { body in
            let request = try await OffEventLoop.read(body) { body throws(Problem) in
                try ResolveRequest(body: body, limits: limits)
            }
            let mutation = try await OffEventLoop.run {
                try await store.settling.resolve(
                    id,
                    request,
                    organization: caller.organization,
                    user: caller.user
                )
            }
            return try answer(mutation) { metrics.resolved.increment() }
        }
    }

    /// What belongs to another user is not there.
    private func answer(_ mutation: [UInt8]?, _ count: () -> Void) throws(Refusal) -> Answer {
        guard let mutation else { throw .notFound }
        count()
        return Answer(.ok, json: mutation)
    }
}
