import HTTPTypes
import JSONText
import Metrics
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/mutations`: the stuck mutations of all users, and their bulk retry and discard.
struct BulkEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    private let metrics = SettleMetrics()

    init(store: Store, bodies: BodyReader) {
        self.store = store
        self.bodies = bodies
    }

    private static let listQuery = URLQuery.mutationFilter.union(["user_id"])

    /// The user whose mutations are viewed.
    ///
    /// A device is recorded only together with its user: an erasure does not search for a device alone.
    func looked(_ exchange: Exchange) throws(Problem) -> AuditTarget {
        let query = try URLQuery(of: exchange, allowing: Self.listQuery)
        var target = AuditTarget()
        target.user = try query.uuid("user_id")
        guard let device = try query.uuid("device_id") else { return target }
        let name: (name: String, value: String) =
            target.user == nil ? ("of_one_device", "true") : ("device_id", device.lowercased)
        target.names = [name]
        return target
    }

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: Self.listQuery)
        let user = try query.uuid("user_id")
        let filter = try query.mutationFilter()
        let organization = try await organization(exchange)
        try await exchange.hold.acquire()
        let page = try await BlockingWork.run {
            let page = try await store.mutations.list(filter, organization: organization, of: user)
            let users = Set(page.mutations.map(\.user))
            let subjects = try await store.administration.subjects(of: users, in: organization.id)
            return OperatorMutationPage(page: page, subjects: subjects).json()
        }
        return Answer(.ok, json: page)
    }

    func retry(_ exchange: Exchange) async throws -> Answer {
        try await settle(exchange, .retry, metrics.retried, "retried") { request, organization in
            try await store.settling.retry(request, organization: organization)
        }
    }

    func discard(_ exchange: Exchange) async throws -> Answer {
        try await settle(exchange, .discard, metrics.discarded, "discarded") { request, organization in
            try await store.settling.discard(request, organization: organization)
        }
    }

    private func settle(
        _ exchange: Exchange,
        _ move: BulkRequest.Move,
        _ counter: Counter,
        _ name: StaticString,
        _ settle: @Sendable (BulkRequest, Organization) async throws -> BulkOutcome
    ) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try await organization(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let request = try BulkRequest(body: body, limit: bodies.limit, for: move)
            exchange.act?.record(request)
            let outcome = try await BlockingWork.run { try await settle(request, organization) }
            counter.increment(by: outcome.settled)
            exchange.act?.record("matched", outcome.matched)
            exchange.act?.record(name, outcome.settled)
            return Answer(.ok) { writer in
                writer.member("matched", outcome.matched)
                writer.member(name, outcome.settled)
            }
        }
    }

    private func organization(_ exchange: Exchange) async throws -> Organization {
        guard let organization = try await store.catalog.organization(exchange.uuid(at: 0)) else {
            throw Refusal.notFound
        }
        return organization
    }
}
