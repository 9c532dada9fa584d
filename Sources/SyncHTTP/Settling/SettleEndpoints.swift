package import FoundationEssentials
import HTTPTypes
package import JSONText
package import Metrics
package import SyncModel
package import SyncStore

/// A user's decisions about a stuck mutation: `POST /v1/mutations/{id}/retry`, `…/discard`, `…/resolve`.
///
/// The response is the mutation in its new state.
package struct SettleEndpoints: Sendable {
    package let store: Store
    package let bodies: BodyReader
    package let limits: IntakeLimits
    private let metrics = SettleMetrics()

    package init(store: Store, bodies: BodyReader, limits: IntakeLimits) {
        self.store = store
        self.bodies = bodies
        self.limits = limits
    }

    package func retry(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await retry(exchange, of: Owner(caller), exchange.uuid(at: 0), endsBackOff: false)
    }

    package func discard(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await discard(exchange, of: Owner(caller), exchange.uuid(at: 0))
    }

    package func resolve(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await resolve(exchange, of: Owner(caller), exchange.uuid(at: 0))
    }

    // MARK: - Decisions of the owner, or of an operator for the owner

    /// The user to whom the mutation belongs.
    package struct Owner: Sendable {
        package let organization: Organization
        package let user: UUID

        package init(organization: Organization, user: UUID) {
            self.organization = organization
            self.user = user
        }

        package init(_ caller: Caller) {
            self.init(organization: caller.organization, user: caller.user)
        }
    }

    /// - Parameter endsBackOff: whether a mutation that waits for its next attempt becomes due. It is false for users,
    ///   because they must not send earlier than the upstream allows.
    package func retry(
        _ exchange: Exchange,
        of owner: Owner,
        _ id: UUID,
        endsBackOff: Bool = true
    ) async throws -> Answer {
        try await settle(exchange, metrics.retried, RetryRequest.init) { request in
            try await store.settling.retry(
                id,
                request,
                organization: owner.organization,
                user: owner.user,
                endsBackOff: endsBackOff
            ).map { ($0.json(), 1) }
        }
    }

    package func discard(_ exchange: Exchange, of owner: Owner, _ id: UUID) async throws -> Answer {
        try await settle(exchange, metrics.discarded, DiscardRequest.init) { request in
            try await store.settling.discard(id, request, organization: owner.organization, user: owner.user)
                .map { ($0.json(), $0.ids.count) }
        }
    }

    package func resolve(_ exchange: Exchange, of owner: Owner, _ id: UUID) async throws -> Answer {
        try await settle(exchange, isBodyOptional: false, metrics.resolved, ResolveRequest.init) { request in
            try await store.settling.resolve(id, request, organization: owner.organization, user: owner.user)
                .map { ($0.json(), 1) }
        }
    }

    /// Returns whether a retry would be accepted, and changes nothing.
    package func validate(_ exchange: Exchange, of owner: Owner, _ id: UUID) async throws -> Answer {
        let valid = JSONWriter.object { $0.member("valid", true) }
        return try await settle(exchange, nil, RetryRequest.init) { request in
            let (organization, user) = (owner.organization, owner.user)
            let isThere = try await store.settling.validate(id, request, organization: organization, user: user)
            return isThere ? (valid, 0) : nil
        }
    }

    /// - Parameter settle: returns the mutation and the number of settled mutations; nil for another user's mutation,
    ///   so that the response is 404.
    private func settle<Request: Sendable>(
        _ exchange: Exchange,
        isBodyOptional: Bool = true,
        _ counter: Counter?,
        _ read: @escaping @Sendable ([UInt8], IntakeLimits) throws(Problem) -> Request,
        _ settle: @Sendable (Request) async throws -> (json: [UInt8], count: Int)?
    ) async throws -> Answer {
        let limits = limits
        return try await bodies.withBody(of: exchange, isOptional: isBodyOptional) { body in
            let request = try await BlockingWork.read(body) { body throws(Problem) in try read(body, limits) }
            // the response contains the mutation; its memory is reserved before the commit, because the response must
            // not be refused after the commit
            try await exchange.hold.acquire(ResponseMemoryLease.mutation)
            let settled = try await BlockingWork.run { try await settle(request) }
            guard let settled else { throw Refusal.notFound }
            counter?.increment(by: settled.count)
            return Answer(.ok, json: settled.json)
        }
    }
}

extension DiscardedMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        let id = mutation.record.id
        mutation.writeMembers(to: &writer)
        // the mutation's own id comes first
        writer.member("discarded", [id] + ids.filter { $0 != id })
    }
}

/// Counts the mutations that people settle.
package struct SettleMetrics: Sendable {
    package init() {}
    package let retried = Self.counter("retry")
    package let discarded = Self.counter("discard")
    package let resolved = Self.counter("resolve")

    private static func counter(_ action: String) -> Counter {
        Counter(label: HTTPMetrics.settled, dimensions: [("action", action)])
    }
}
