import FoundationEssentials
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// An operator's decisions about one mutation of a user. Bodies, rules and responses are the same as for the user's own
/// requests.
///
/// `POST /admin/organizations/{id}/users/{user}/mutations/{mutation}/retry`, `…/discard`, `…/resolve`.
struct OperatorSettleEndpoints: Sendable {
    let store: Store
    let settling: SettleEndpoints

    func retry(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["validate"])
        let isDryRun = try query.flag("validate")
        // without this entry, the audit log would not distinguish a dry run from a retry
        if isDryRun {
            exchange.act?.record("validated", true)
            exchange.act?.markDryRun()
        }
        let owner = try await owner(exchange)
        return isDryRun
            ? try await settling.validate(exchange, of: owner, exchange.uuid(at: 2))
            : try await settling.retry(exchange, of: owner, exchange.uuid(at: 2))
    }

    func discard(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await settling.discard(exchange, of: owner(exchange), exchange.uuid(at: 2))
    }

    func resolve(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await settling.resolve(exchange, of: owner(exchange), exchange.uuid(at: 2))
    }

    private func owner(_ exchange: Exchange) async throws -> SettleEndpoints.Owner {
        let (organization, user) = try await store.catalog.owner(of: exchange)
        return SettleEndpoints.Owner(organization: organization, user: user)
    }
}

extension Catalog {
    /// Returns the organization and the user from the first two parameters of an operator's path. If the user was
    /// joined into another user, the target user is returned.
    func owner(of exchange: Exchange) async throws -> (organization: Organization, user: UUID) {
        let (id, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let organization = try await organization(id) else { throw Refusal.notFound }
        return (organization, try await owner(of: user, in: id))
    }
}

extension AuditRecorder {
    /// Records the filter of a request to settle mutations, or the first of the request's ids.
    ///
    /// Neither devices nor texts of users are recorded, because an erasure does not search for them in the audit log.
    func record(_ request: BulkRequest) {
        record("statuses", texts: request.statuses.map(\.rawValue))
        if let type = request.entityType { record("entity_type", type) }
        if request.deviceID != nil { record("of_one_device", true) }
        if let user = request.userID { record(user: user) }
        if let ids = request.ids { record(ids: ids) }
    }

    /// Records the kind of a bulk operation, and its filter or the first of its ids.
    func record(_ draft: OperationDraft) {
        record("kind", draft.kind.rawValue)
        if !draft.filter.statuses.isEmpty { record("statuses", texts: draft.filter.statuses.map(\.rawValue)) }
        if let type = draft.filter.entityType { record("entity_type", type) }
        if let code = draft.filter.errorCode { record("error_code", code) }
        if let status = draft.filter.responseStatus { record("response_status", Int(status)) }
        if let user = draft.filter.user { record(user: user) }
        if let dependants = draft.dependants { record("dependents", dependants.rawValue) }
        if let strategy = draft.strategy { record("strategy", strategy.rawValue) }
        if !draft.reason.isEmpty { record(reason: draft.reason) }
        if let ids = draft.ids { record(ids: ids) }
    }
}

/// A page of an organization's mutations, with their users.
struct OperatorMutationPage: AnswerBody {
    let page: MutationPage
    /// The subjects that issuers use for the users of the page.
    let subjects: [UUID: [Subject]]

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutations", page.mutations)
        // the mutations are ordered by user
        let users = page.mutations.map(\.user).reduce(into: [UUID]()) { if $0.last != $1 { $0.append($1) } }
        writer.member("users", users) { writer, user in
            writer.object { writer in
                writer.member("id", user)
                writer.member("subjects", subjects[user] ?? [])
            }
        }
        writer.member("next", page.next)
    }
}
