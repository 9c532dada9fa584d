import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// The activity of an organization's devices: `…/mutations/recent`, `…/entities` and `…/throughput`.
struct ActivityEndpoints: Sendable {
    let store: Store

    /// Lists mutations in every status, without the content that users wrote.
    func mutations(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(
            of: exchange,
            allowing: URLQuery.mutationFilter.union(["user_id", "mutation", "entity_id", "until"])
        )
        let page = try query.mutationFilter()
        var filter = RecentMutations.Filter()
        (filter.statuses, filter.device, filter.entityType) = (page.statuses, page.deviceID, page.entityType)
        filter.user = try query.uuid("user_id")
        filter.mutation = try query.uuid("mutation")
        filter.entityID = try query.entityID()
        filter.until = try query.moment("until")
        let organization = try await organization(exchange)
        try await exchange.hold.acquire()
        let json = try await BlockingWork.run { [filter] in
            let found = try await store.recentMutations.page(
                filter,
                organization: organization,
                limit: page.limit,
                cursor: page.cursor
            )
            let users = try await LaneUsers(of: found.mutations.map(\.lane), in: store)
            return RecentMutationsAnswer(page: found, users: users).json()
        }
        return Answer(.ok, json: json)
    }

    /// Lists entities, or shows a single entity. The single entity includes its document if requested.
    func entities(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(
            of: exchange,
            allowing: ["entity_type", "entity_id", "payload", "limit", "cursor"]
        )
        let showsDocument = try query.flag("payload")
        if showsDocument, let token = exchange.operatorToken { try OperatorAuthenticator.require(.settle, of: token) }
        let (type, id) = try (query.entityType("entity_type"), query.entityID())
        let (limit, cursor) = try (query.limit(default: 100), query.text("cursor"))
        if showsDocument, id == nil { throw URLQuery.invalid("payload", "requires 'entity_id'") }
        let organization = try await organization(exchange)
        try await exchange.hold.acquire(showsDocument ? ResponseMemoryLease.mutation : ResponseMemoryLease.page)
        let json = try await BlockingWork.run {
            var page: EntityListing.Page
            if let type, let id {
                let key = EntityKey(type: type, id: id)
                let found = try await store.entityListing.entity(key, in: organization, withDocument: showsDocument)
                page = EntityListing.Page(entities: [found].compactMap(\.self), next: nil)
                if showsDocument, let found {
                    let target: KeyValuePairs = ["entity_type": type, "entity_id": id]
                    try await exchange.audit?.recordingRead(
                        "lookAtPayload",
                        of: organization,
                        user: found.owner,
                        target
                    )
                }
            } else {
                page = try await store.entityListing.page(of: organization, type: type, limit: limit, cursor: cursor)
            }
            let lanes = page.entities.flatMap { [$0.owner, $0.lastWriter.user] }
                .map { LaneKey(organization: organization, user: $0) }
            let users = try await LaneUsers(of: lanes, in: store)
            return EntitiesAnswer(page: page, users: users, showsDocument: showsDocument).json()
        }
        return Answer(.ok, json: json)
    }

    /// Counts the completed mutations of the last hour and the last day.
    func throughput(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (at, hour, day) = try await store.throughput.periods(of: organization(exchange))
        return Answer(.ok) { writer in
            writer.member("at", at.rfc3339)
            writer.member("hour", object: hour.writeMembers)
            writer.member("day", object: day.writeMembers)
        }
    }

    private func organization(_ exchange: Exchange) async throws -> UUID {
        let id = try exchange.uuid(at: 0)
        guard try await store.catalog.organization(id) != nil else { throw Refusal.notFound }
        return id
    }
}

extension URLQuery {
    /// The server id of an entity. The query must also contain the entity's type.
    fileprivate func entityID() throws(Problem) -> String? {
        guard let id = try plainText("entity_id", atMost: ServerID.maximumBytes) else { return nil }
        guard try text("entity_type") != nil else { throw Self.invalid("entity_id", "requires 'entity_type'") }
        return id
    }
}

/// A page of mutations in every status, with their users.
private struct RecentMutationsAnswer: AnswerBody {
    let page: RecentMutations.Page
    let users: LaneUsers

    var expectedBytes: Int { 64 + page.mutations.count * 640 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutations", page.mutations)
        users.writeMember(to: &writer)
        writer.member("next", page.next)
    }
}

extension RecentMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        summary.writeMembers(
            to: &writer,
            changedAt: changedAt,
            afterDevice: { $0.member("sequence_number", sequenceNumber) },
            afterEntity: { $0.member("version", version) }
        )
    }
}

/// A page of entities, with their owners and last writers.
private struct EntitiesAnswer: AnswerBody {
    let page: EntityListing.Page
    let users: LaneUsers
    let showsDocument: Bool

    var expectedBytes: Int { 64 + page.entities.reduce(0) { $0 + 640 + ($1.document?.count ?? 0) } }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("entities", page.entities) { writer, entity in
            writer.object { writer in
                entity.writeMembers(to: &writer)
                if showsDocument { writer.member("document", raw: entity.document) }
            }
        }
        users.writeMember(to: &writer)
        writer.member("next", page.next)
    }
}

extension ListedEntity: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("entity_type", type)
        writer.member("id", id)
        writer.member("client_id", clientID)
        writer.member("version", version)
        writer.member("deleted", isDeleted)
        writer.member("owner_id", owner)
        writer.member("updated_by", lastWriter.user)
        writer.member("device_id", lastWriter.device)
        writer.member("feed_position", feedPosition)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension Throughput.Period {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("step_seconds", step)
        writer.member("from", from.rfc3339)
        writer.member("completed", completed) { $0.int($1) }
        writer.member("is_more", isMore)
    }
}
