import FoundationEssentials
import HTTPTypes
package import JSONText
import Metrics
import SyncHTTP
import SyncModel
import SyncStore

/// Bulk operations, which settle many mutations: `/admin/organizations/{id}/operations` and `/admin/operations`.
struct OperationEndpoints: Sendable {
    let store: Store
    let operations: OperationStore
    let bodies: BodyReader

    /// Responds with the number of mutations that an operation would process, and with the first of these mutations.
    func preview(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        exchange.act?.markDryRun()
        let organization = try await organization(exchange)
        let draft = try await draft(exchange, isPreview: true)
        let json = try await BlockingWork.run {
            let preview = try await operations.preview(draft, in: organization)
            let users = Set(preview.sample.map(\.lane.user))
            let subjects = try await store.administration.subjects(of: users, in: organization)
            return OperationPreviewAnswer(preview: preview, subjects: subjects).json()
        }
        return Answer(.ok, json: json)
    }

    /// Creates an operation, which any gateway processes.
    func make(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try await organization(exchange)
        let draft = try await draft(exchange, isPreview: false)
        let actor = exchange.operatorToken?.name ?? OperatorToken.defaultName
        guard let made = try await operations.make(draft, in: organization, by: actor) else { throw Refusal.notFound }
        exchange.act?.record("operation", made.id)
        return Answer(.accepted, made)
    }

    func list(_ exchange: Exchange) async throws -> Answer {
        let (state, limit, cursor) = try Self.page(exchange)
        let organization = try await organization(exchange)
        try await exchange.hold.acquire()
        return Answer(
            .ok,
            try await operations.list(of: organization, state: state, limit: limit, cursor: cursor)
        )
    }

    /// Lists the operations of all organizations.
    func listAll(_ exchange: Exchange) async throws -> Answer {
        let (state, limit, cursor) = try Self.page(exchange)
        try await exchange.hold.acquire()
        return Answer(.ok, try await operations.list(of: nil, state: state, limit: limit, cursor: cursor))
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, id) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        return try .found(await operations.operation(id, in: organization))
    }

    /// Ends an operation, and responds with its state.
    func cancel(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, id) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        let operation = try await operations.cancel(id, in: organization)
        if let operation { exchange.act?.record("done", operation.tally.done) }
        return try .found(operation)
    }

    private func organization(_ exchange: Exchange) async throws -> UUID {
        let id = try exchange.uuid(at: 0)
        guard try await store.catalog.organization(id) != nil else { throw Refusal.notFound }
        return id
    }

    private func draft(_ exchange: Exchange, isPreview: Bool) async throws -> OperationDraft {
        try await bodies.withBody(of: exchange) {
            let draft = try OperationDraft(body: $0, limit: bodies.limit, isPreview: isPreview)
            exchange.act?.record(draft)
            return draft
        }
    }

    private static func page(
        _ exchange: Exchange
    ) throws(Problem) -> (state: OperationState?, limit: Int, cursor: String?) {
        let query = try URLQuery(of: exchange, allowing: ["state", "limit", "cursor"])
        return (try query.choice("state"), try query.limit(default: 100), try query.text("cursor"))
    }
}

// MARK: - BulkEndpoints

/// `/admin/organizations/{id}/mutations`: the stuck mutations (failed or in conflict) of all users, and their bulk
/// retry and discard.
struct BulkEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    private let metrics = SettleMetrics()

    init(store: Store, bodies: BodyReader) {
        self.store = store
        self.bodies = bodies
    }

    private static let listQuery = URLQuery.mutationFilter.union(["user_id"])

    /// Returns the target for the audit log: the user whose mutations are viewed.
    ///
    /// A device id is recorded only together with the user's id, because an erasure finds the user's entries in the
    /// audit log by the user's id.
    func auditTarget(_ exchange: Exchange) throws(Problem) -> AuditTarget {
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

extension OperationRow: AnswerBody {
    package var expectedBytes: Int { 1_024 + (ids?.count ?? 0) * 40 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("organization_id", organization)
        writer.member("kind", kind.rawValue)
        writer.member("filter") { OperationDraft.filterTable.write((filter, ids), to: &$0) }
        writer.member("dependents", dependants?.rawValue)
        writer.member("strategy", strategy?.rawValue)
        writer.member("reason", reason)
        writer.member("actor", actor)
        writer.member("per_second", Int64(perSecond))
        writer.member("state", state.rawValue)
        writer.member("matched", matched)
        if let total { writer.member("total", total) } else { writer.member(null: "total") }
        writer.member("done", tally.done)
        writer.member("skipped", tally.skipped)
        writer.member("failed", tally.failed)
        writer.member("reasons", reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }) { writer, reason in
            writer.object { writer in
                writer.member("code", reason.key)
                writer.member("count", reason.value)
            }
        }
        writer.member("error", error)
        writer.member("gateway_id", gateway)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("started_at", startedAt?.rfc3339)
        writer.member("changed_at", changedAt.rfc3339)
        writer.member("ended_at", endedAt?.rfc3339)
    }
}

extension OperationStore.Page: AnswerBody {
    package var expectedBytes: Int { 64 + operations.count * 768 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("operations", operations)
        writer.member("next", next)
    }
}

/// The mutations that an operation would process, and the users of the sample mutations.
struct OperationPreviewAnswer: AnswerBody {
    let preview: OperationStore.Preview
    let subjects: [UUID: [Subject]]

    var expectedBytes: Int { 256 + preview.sample.count * 768 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("count", preview.count)
        writer.member("users", preview.users)
        writer.member("sample", preview.sample) { writer, mutation in
            writer.object { writer in
                mutation.writeMembers(to: &writer)
                writer.member("subjects", subjects[mutation.lane.user] ?? [])
            }
        }
    }
}
