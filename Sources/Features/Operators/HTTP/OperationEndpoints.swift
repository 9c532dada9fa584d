import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// Bulk operations, which settle many mutations: `/admin/organizations/{id}/operations` and `/admin/operations`.
struct OperationEndpoints: Sendable {
    let store: Store
    let operations: OperationStore
    let bodies: BodyReader

    /// How many mutations an operation would be about, and the first of them.
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

    /// Makes an operation: some gateway works on it.
    func make(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try await organization(exchange)
        let draft = try await draft(exchange, isPreview: false)
        let actor = exchange.operatorToken?.name ?? OperatorToken.usualName
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

    /// Those of all organizations.
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

    /// Ends an operation; the response has its state.
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
