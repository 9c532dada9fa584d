import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/organizations/{id}/users/{user}/mutations/{mutation}`: the history of one mutation.
///
/// Content of the user and of the upstream is shown only if it is requested, and only after the request was recorded in
/// the audit log.
struct MutationHistoryEndpoint: Sendable {
    let store: Store

    func read(_ exchange: Exchange) async throws -> Answer {
        let showsPayload = try URLQuery(of: exchange, allowing: ["payload"]).flag("payload")
        if showsPayload, let token = exchange.operatorToken { try OperatorAuthenticator.require(.settle, of: token) }
        let (organization, user) = try await store.catalog.owner(of: exchange)
        let id = try exchange.uuid(at: 2)
        try await exchange.hold.acquire(ResponseMemoryLease.mutation)
        let json = try await BlockingWork.run {
            guard
                let mutationHistory = try await store.stories.mutationHistory(
                    of: id,
                    organization: organization,
                    user: user
                )
            else {
                throw Refusal.notFound
            }
            if showsPayload {
                let target: KeyValuePairs = ["mutation": id.lowercased]
                try await exchange.audit?.recordingRead("lookAtPayload", of: organization.id, user: user, target)
            }
            let names = try await store.administration.subjects(of: [user], in: organization.id)
            return MutationHistoryAnswer(
                mutationHistory: mutationHistory,
                subjects: names[user] ?? [],
                showsPayload: showsPayload
            ).json()
        }
        return Answer(.ok, json: json)
    }
}

/// A mutation's history, with or without the content of its user and of the upstream.
struct MutationHistoryAnswer: AnswerBody {
    /// The members that are shown as null if the content is not requested. These members contain no ids.
    private static let redacted = [
        "mutation.endpoint", "mutation.payload", "mutation.headers", "mutation.etag", "mutation.response.body",
        "mutation.error.current", "mutation.last_error", "pushed.endpoint", "pushed.payload", "pushed.headers",
        "sent.url", "sent.url_path", "sent.headers", "sent.body", "sent.rewritten", "entity.etag", "entity.document",
        "curl",
    ]

    let mutationHistory: MutationHistory
    let subjects: [Subject]
    let showsPayload: Bool

    var expectedBytes: Int {
        4_096
            + (showsPayload
                ? 2 * (mutationHistory.detail.payload?.count ?? 0)
                    + (mutationHistory.entity?.state.document?.count ?? 0) : 0)
    }

    func writeMembers(to writer: inout JSONWriter) {
        let detail = mutationHistory.detail
        writer.member("mutation", showsPayload ? detail : detail.redacted)
        writer.member("changed_at", mutationHistory.changedAt.rfc3339)
        writer.member("subjects", subjects)
        writer.member("withheld", showsPayload ? [] : Self.redacted)
        writer.member("pushed", object: writePushed)
        writer.member(
            "sent",
            mutationHistory.sent.map { SentRequestAnswer(mutationHistory: $0, showsPayload: showsPayload) }
        )
        writer.member("attempts", mutationHistory.attempts)
        writer.member("waits_for", mutationHistory.waitsFor)
        writer.member("waited_for_by") { writer in
            writer.member("mutations", mutationHistory.waiters)
            writer.member("count", mutationHistory.waiterCount)
        }
        writer.member("lane") { writer in
            writer.member("halted_by", mutationHistory.haltedBy)
            writer.member("position", detail.record.position)
            writer.member("ahead", mutationHistory.ahead)
            writer.member("held_by", mutationHistory.blocker)
        }
        writer.name("entity")
        if let entity = mutationHistory.entity { writer.object { write(entity, to: &$0) } } else { writer.null() }
        writer.member("history", mutationHistory.history)
        writer.member("curl", showsPayload ? mutationHistory.sent.map { CurlCommand($0).text } : nil)
    }

    private func writePushed(to writer: inout JSONWriter) {
        let detail = mutationHistory.detail
        writer.member("endpoint", showsPayload ? detail.endpoint : nil)
        writer.member("payload", raw: showsPayload ? detail.payload : nil)
        writer.member("headers", raw: showsPayload ? detail.headers : nil)
        writer.member("device_id", detail.record.deviceID)
        writer.member("sequence_number", detail.record.sequenceNumber)
        writer.member("created_at", detail.createdAt.rfc3339)
        writer.member("accepted_at", detail.record.acceptedAt.rfc3339)
    }

    private func write(_ entity: MutationHistory.Entity, to writer: inout JSONWriter) {
        let state = entity.state
        writer.member("type", mutationHistory.detail.record.entity.type)
        writer.member("id", entity.id)
        writer.member("client_id", state.clientID)
        writer.member("version", state.version)
        writer.member("deleted", state.isDeleted)
        writer.member("etag", showsPayload ? state.etag : nil)
        writer.member("owner_id", state.owner)
        writer.member("updated_at", entity.updatedAt.rfc3339)
        writer.member("updated_by", state.lastWriter.user)
        writer.member("feed_position", entity.feedPosition)
        writer.member("document", raw: showsPayload ? state.document : nil)
    }
}

/// The request to the upstream.
private struct SentRequestAnswer: AnswerBody {
    let mutationHistory: ReplayPreview
    let showsPayload: Bool

    func writeMembers(to writer: inout JSONWriter) {
        let request = mutationHistory.request
        writer.member("method", request.method)
        guard showsPayload else {
            // these members are null because they may reveal parts of the payload: the path may have a query from the
            // app, and the pointers in `rewritten` contain names of the payload's members
            writer.member(null: "url")
            writer.member(null: "url_path")
            writer.member(null: "headers")
            writer.member(null: "body")
            writer.member("idempotency_key", mutationHistory.idempotencyKey)
            writer.member(null: "rewritten")
            return
        }
        writer.member("url", mutationHistory.baseURL + request.path)
        writer.member("url_path", request.path)
        writer.member("headers") { writer in
            for header in request.headers {
                writer.name(header.name)
                writer.string(header.value)
            }
        }
        writer.member("body", raw: request.body)
        writer.member("idempotency_key", mutationHistory.idempotencyKey)
        writer.member("rewritten", mutationHistory.rewritten) { writer, place in
            writer.object { writer in
                writer.member("pointer", place.pointer)
                writer.member("client_id", place.clientID as ServerID?)
                writer.member("server_id", place.serverID as ServerID?)
                writer.member("entity_type", place.entityType)
            }
        }
    }
}

extension MutationHistory.Attempt: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("ordinal", Int64(ordinal))
        writer.member("revision", Int64(note.revision))
        writer.member("number", Int64(note.number))
        writer.member("sent_at", note.sentAt?.rfc3339)
        writer.member("duration_ms", note.milliseconds.map(Int64.init))
        writer.member("status", note.status.map(Int64.init))
        writer.member("error", note.error)
        writer.member("outcome", note.result.rawValue)
        writer.member("outcome_rule", note.rule)
    }
}

extension MutationHistory.RelatedMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutation_id", id)
        writer.member("status", status.rawValue)
        writer.member("operation", operation.rawValue)
        writer.member("entity_type", entity.type)
        writer.localID(entity.client)
        writer.member("server_id", entity.serverID)
    }
}

extension MutationHistory.EntityMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("status", status.rawValue)
        writer.member("operation", operation.rawValue)
        writer.member("version", version)
        writer.member("changed_at", changedAt.rfc3339)
    }
}
