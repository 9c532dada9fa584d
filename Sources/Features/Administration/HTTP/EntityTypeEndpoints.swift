import Foundation
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// `/admin/organizations/{id}/entity-types` and `/admin/organizations/{id}/entity-types/{name}`.
struct EntityTypeEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["limit", "cursor"])
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard EntityType.isValidName(text) else { throw .invalidParameter("cursor is invalid") }
            return text
        }
        let page = try await store.administration.entityTypes(of: exchange.uuid(at: 0), limit: limit, after: cursor)
        guard let page else { throw Refusal.notFound }
        return Answer(.ok, capacity: 64 + 256 * page.types.count) { writer in
            writer.member("entity_types", page.types)
            writer.member("next", page.next)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        let (organization, name) = try place(exchange)
        return try .found(await store.administration.entityType(name, in: organization))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        let (organization, name) = try place(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let update = try EntityTypeUpdate(body: body)
            return try .written(await store.administration.putEntityType(name, in: organization, update))
        }
    }

    /// The organization and the type's name; not found for an invalid name.
    private func place(_ exchange: Exchange) throws -> (UUID, String) {
        _ = try URLQuery(of: exchange)
        let name = String(exchange.parameters[1])
        guard EntityType.isValidName(name) else { throw Refusal.notFound }
        return (try exchange.uuid(at: 0), name)
    }
}

extension EntityType: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("id_space", idSpace.rawValue)
        writer.member("relations") { writer in
            for relation in relations {
                writer.name(relation.member)
                writer.string(relation.entityType)
            }
        }
        writer.member("visibility", visibility.rawValue)
        writer.name("channels")
        channels.writeChannels(to: &writer)
        writer.name("grants")
        channels.writeGrants(to: &writer)
        writer.member("default_priority", Int64(defaultPriority))
        writer.member("upstream", isForwarded)
        writer.member("on_erase", onErase.rawValue)
        writer.member("in_use", isInUse)
    }
}

extension EntityTypeUpdate {
    private static let what =
        "an entity type: id_space, relations, visibility, channels, grants, default_priority, upstream, on_erase"

    /// Reads the body of `PUT /admin/organizations/{id}/entity-types/{name}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8]) throws(Problem) {
        var update = EntityTypeUpdate()
        try RequestReport.read(body, of: Self.what) { report, member, value in
            let pointer = "/" + member
            switch member {
            case "id_space":
                let space = value.string.flatMap(IDSpace.init(rawValue:))
                update.idSpace = report.value(space, at: pointer, "id_space must be mapped, device or shared")
            case "visibility":
                let visibility = value.string.flatMap(Visibility.init(rawValue:))
                update.visibility = report.value(
                    visibility,
                    at: pointer,
                    "visibility must be organization, user or channels"
                )
            case "channels":
                let (templates, problems) = ChannelRules.readChannels(value)
                report.problems += problems
                update.channels = templates
            case "grants":
                let (grants, problems) = ChannelRules.readGrants(value)
                report.problems += problems
                update.grants = grants
            case "on_erase":
                let choice = value.string.flatMap(OnErase.init(rawValue:))
                update.onErase = report.value(choice, at: pointer, "on_erase must be delete or blank_owner")
            case "default_priority":
                let number = value.int64.flatMap { (0...1_000).contains($0) ? Int16($0) : nil }
                let detail = "default_priority must be an integer, 0 to 1000"
                update.defaultPriority = report.value(number, at: pointer, detail)
            case "upstream":
                let detail = "upstream must be true (forwarded) or false (in the built-in store)"
                update.isForwarded = report.value(value.bool, at: pointer, detail)
            case "relations":
                report.problems += Self.problems(inRelations: value)
                update.relations = Array(value.raw)
            default: return false
            }
            return true
        }
        self = update
    }

    /// Relations may lead to types that are not registered yet.
    private static func problems(inRelations value: JSONValue) -> [ProblemDetail] {
        func wrong(_ detail: String, _ rule: String = Rule.range, _ pointer: String = "/relations") -> ProblemDetail {
            ProblemDetail(pointer: pointer, rule: rule, detail: detail)
        }
        guard let members = value.members else {
            return [wrong(#"relations must be an object of members and entity types: {"folderId":"folder"}"#)]
        }
        let relations = members.map { ($0.name.string, $0.value) }
        guard relations.count <= Relation.limit else {
            return [wrong("a type may have at most \(Relation.limit) relations")]
        }
        return relations.compactMap { member, target in
            let pointer = JSONPointer("/relations").appending(member: member).text
            guard Relation.isValidMember(member) else {
                let bounds = "1 to \(Relation.maximumNameBytes) bytes without control characters"
                return wrong("a relation is a member of the type's documents, \(bounds)", Rule.range, pointer)
            }
            guard let name = target.string, EntityType.isValidName(name) else {
                let detail = "a relation must refer to an entity type, whose name matches [a-z][a-z0-9_-]{0,63}"
                return wrong(detail, Rule.entityType, pointer)
            }
            return nil
        }
    }
}
