import HTTPTypes
package import JSONText
import StandardWebhooks
import SyncHTTP
package import SyncModel
import SyncStore

/// `/admin/organizations/{id}/sources`: an organization's sources of events.
///
/// A source needs no separate program that reports its events.
///
/// If a request makes the gateway generate a secret, the response contains this secret. No other response contains a
/// secret.
struct SourceEndpoints: Sendable {
    let administration: SourceAdministration
    let bodies: BodyReader
    let limits: IntakeLimits
    let policy: AddressPolicy

    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let sources = try await administration.list(in: exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.ok, capacity: sources.reduce(64) { $0 + $1.expectedBytes }) { $0.member("sources", sources) }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await administration.source(key(exchange)))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let key = try key(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let update = try SourceUpdate(body: body)
            try update.check(policy)
            let generatedSecret = update.generatedSecret()
            guard let written = try await administration.put(key, update, defaultSecret: generatedSecret) else {
                throw Refusal.notFound
            }
            return Self.answer(written.isNew ? .created : .ok, written.row, written.isNew ? generatedSecret : nil)
        }
    }

    func remove(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await administration.delete(key(exchange)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }

    func rotate(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let key = try key(exchange)
        return try await bodies.withBody(of: exchange, isOptional: true) { body in
            let request = try SourceSecretRequest(body: body)
            guard let found = try await administration.source(key) else { throw Refusal.notFound }
            guard found.kind == .webhook else {
                let detail =
                    "only webhook sources support two secrets during a rotation; PUT the source with another secret"
                throw Problem(.validationFailed, pointer: "", rule: Rule.range, detail)
            }
            let generatedSecret = request.secret == nil ? WebhookSecret().text : nil
            let secret = request.secret ?? generatedSecret ?? ""
            guard let row = try await administration.rotate(key, to: secret, overlap: Double(request.overlap)) else {
                throw Refusal.notFound
            }
            return Self.answer(.ok, row, generatedSecret)
        }
    }

    /// Returns the events that a source would make from a body, and changes nothing.
    func test(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        exchange.act?.markDryRun()
        let key = try key(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let request = try SourceTestRequest(body: body)
            guard let found = try await administration.source(key) else { throw Refusal.notFound }
            let trial = try SourceTrial(
                of: request.body,
                from: found,
                messageID: request.messageID,
                by: request.mapping,
                limits: limits
            )
            return Answer(.ok, trial)
        }
    }

    /// Triggers an immediate fetch from a source.
    func run(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let key = try key(exchange)
        return try await bodies.withBody(of: exchange, isOptional: true) { body in
            guard let found = try await administration.source(key) else { throw Refusal.notFound }
            let request = try SourceRunRequest(body: body, of: found)
            guard let row = try await administration.run(key, from: request.beginning) else {
                throw SourceAdministration.cannotRun(found)
            }
            return Answer(.accepted, row)
        }
    }

    private static func answer(_ status: HTTPResponse.Status, _ source: SourceRow, _ secret: String?) -> Answer {
        Answer(status, capacity: source.expectedBytes) { writer in
            source.writeMembers(to: &writer)
            writer.member("secret", secret)
        }
    }

    private func key(_ exchange: Exchange) throws(Refusal) -> SourceKey {
        let name = String(exchange.parameters[1])
        guard IngestSource.isValid(name) else { throw .notFound }
        return SourceKey(organization: try exchange.uuid(at: 0), name: name)
    }
}

extension SourceRow: AnswerBody {
    package var expectedBytes: Int { 512 + settings.count }

    package func writeMembers(to writer: inout JSONWriter) { SourceRequest.table.write(self, to: &writer) }
}

/// The events that a source would make from a body.
package struct SourceTrial: AnswerBody {
    package let events: MappedEvents

    package init(events: MappedEvents) {
        self.events = events
    }

    /// - Parameters:
    ///   - messageID: the id of the message, for a source of kind `webhook`. The ids of events are made from it.
    ///   - mapping: the mapping to try instead of the source's mapping; nil to use the source's mapping.
    /// - Throws: the reason why no events can be made from the body. Its pointers begin with `/body`.
    package init(
        of body: [UInt8],
        from source: SourceRow,
        messageID: String,
        by mapping: SourceMapping? = nil,
        limits: IntakeLimits
    ) throws(Problem) {
        guard let mapping = mapping ?? SourceSettings(source.kind, stored: source.settings)?.mapping else {
            let detail = "a source of kind \(source.kind.rawValue) has no mapping, so it cannot be tested"
            throw Problem(.validationFailed, pointer: "/mapping", rule: Rule.required, detail)
        }
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        do throws(Problem) {
            events = try mapping.map(
                tree.root,
                id: source.kind == .webhook ? .message(ByteExactString(messageID)) : .content,
                limits: limits
            )
        } catch {
            var problem = error
            problem.errors = problem.errors.map { detail in
                var detail = detail
                detail.pointer = "/body" + detail.pointer
                return detail
            }
            throw problem
        }
    }

    package var expectedBytes: Int { 64 + events.entries.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.name("events")
        writer.beginArray()
        for (entry, origin) in zip(events.entries, events.origins) {
            writer.beginObject()
            writer.member("pointer", origin.place)
            writer.member("rule", Int64(origin.rule))
            switch entry.event {
            case .success(let event):
                writer.name("event")
                event.write(to: &writer)
                writer.member(null: "error")
            case .failure(let problem):
                writer.member(null: "event")
                writer.name("error")
                problem.write(to: &writer)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.member("ignored", Int64(events.ignored))
    }
}

extension IngestEvent {
    /// Writes the event in the form that a program would send.
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("event_id", id)
        writer.member("entity_type", entityType)
        writer.member("id", entityID)
        writer.member("version", mark.version)
        writer.member("occurred_at", mark.occurredAt?.rfc3339)
        writer.member("operation", operation.rawValue)
        writer.member("document", raw: document)
        writer.member("owner", owner)
        writer.member("causing_key", causingKey)
        writer.endObject()
    }
}
