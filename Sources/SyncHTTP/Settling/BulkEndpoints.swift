import HTTPTypes
import JSONText
import Metrics
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/mutations`: what is stuck, over all users, and what is done about it.
struct BulkEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    private let metrics = SettleMetrics()

    init(store: Store, bodies: BodyReader) {
        self.store = store
        self.bodies = bodies
    }

    func list(_ exchange: Exchange) async throws -> Answer {
        let names: Set = ["status", "device_id", "entity_type", "user_id", "limit", "cursor"]
        let query = try Query(of: exchange, allowing: names)
        let user = try query.uuid("user_id")
        let filter = MutationFilter(
            statuses: try query.statuses("status"),
            deviceID: try query.uuid("device_id"),
            entityType: try query.entityType("entity_type"),
            limit: try query.limit(default: 100),
            cursor: try query.text("cursor")
        )
        let organization = try await organization(exchange)
        try await exchange.hold.enter()
        let page = try await OffEventLoop.run {
            try await store.mutations.list(filter, organization: organization, of: user)
        }
        return Answer(.ok, json: page)
    }

    func retry(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let organization = try await organization(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let request = try BulkRequest(body: body, limit: bodies.limit, for: .retry)
            let outcome = try await OffEventLoop.run {
                try await store.settling.retry(request, organization: organization)
            }
            metrics.retried.increment(by: outcome.settled)
            return answer(outcome, "retried")
        }
    }

    func discard(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let organization = try await organization(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let request = try BulkRequest(body: body, limit: bodies.limit, for: .discard)
            let outcome = try await OffEventLoop.run {
                try await store.settling.discard(request, organization: organization)
            }
            metrics.discarded.increment(by: outcome.settled)
            return answer(outcome, "discarded")
        }
    }

    private func organization(_ exchange: Exchange) async throws -> Organization {
        guard let organization = try await store.catalog.organization(exchange.uuid(at: 0)) else {
            throw Refusal.notFound
        }
        return organization
    }

    private func answer(_ outcome: BulkOutcome, _ name: StaticString) -> Answer {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("matched", outcome.matched)
        writer.member(name, outcome.settled)
        writer.endObject()
        return Answer(.ok, json: writer.bytes)
    }
}
