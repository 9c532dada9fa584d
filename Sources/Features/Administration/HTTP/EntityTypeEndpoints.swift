import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// `/admin/organizations/{id}/entity-types` and `/admin/organizations/{id}/entity-types/{name}`.
struct EntityTypeEndpoints: Sendable {
    /// The maximum number of types on a page that also has the numbers of their entities. For each type, up to
    /// ``BoundedCount/limit`` entities are counted.
    private static let counted = 50

    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["counts", "limit", "cursor"])
        let showsCounts = try query.flag("counts")
        let asked = try query.limit(default: showsCounts ? 20 : 100)
        let limit = showsCounts ? min(asked, Self.counted) : asked
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard EntityType.isValidName(text) else { throw .invalidParameter("cursor is invalid") }
            return text
        }
        let page = try await store.administration.entityTypes(of: exchange.uuid(at: 0), limit: limit, after: cursor)
        guard let page else { throw Refusal.notFound }
        var counts: [BoundedCount] = []
        if showsCounts {
            let (organization, evaluation) = (try exchange.uuid(at: 0), store.channelEvaluation)
            for type in page.types { counts.append(try await evaluation.count(of: type.name, in: organization)) }
        }
        return Answer(.ok, capacity: 64 + 256 * page.types.count) { [counts] writer in
            writer.member("entity_types", page.types.enumerated()) { writer, type in
                writer.object { writer in
                    type.element.writeMembers(to: &writer)
                    guard showsCounts else { return }
                    writer.member("entities", counts[type.offset].count)
                    writer.member("more_entities", counts[type.offset].isMore)
                }
            }
            writer.member("next", page.next)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, name) = try place(exchange)
        return try .found(await store.administration.entityType(name, in: organization))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        let (organization, name) = try place(exchange)
        let isDryRun = try URLQuery(of: exchange, allowing: ["validate"]).flag("validate")
        if isDryRun { exchange.act?.markDryRun() }
        return try await bodies.withBody(of: exchange) { body in
            let update = try EntityTypeUpdate(body: body)
            if isDryRun { return try await validate(update, name, organization) }
            let actor = exchange.operatorToken?.name ?? OperatorToken.defaultName
            return try .written(await store.administration.putEntityType(name, in: organization, update, by: actor))
        }
    }

    /// Responds with the settings that an update would result in, and with its effect on the channels of entities.
    ///
    /// The update is not written.
    private func validate(_ update: EntityTypeUpdate, _ name: String, _ organization: UUID) async throws -> Answer {
        guard let next = try await store.administration.entityType(name, in: organization, after: update) else {
            throw Refusal.notFound
        }
        let preview = try await store.channelEvaluation.preview(next, in: organization)
        return Answer(.ok, capacity: 1_024) { writer in
            writer.member("entity_type", next)
            writer.member("channels") { writer in
                writer.member("entities", preview.entities.count)
                writer.member("more_entities", preview.entities.isMore)
                writer.member("examined", Int64(preview.examined))
                writer.member("changed", Int64(preview.changed))
                writer.member("over_limit", Int64(preview.overLimit))
                writer.member("without_channels", Int64(preview.withoutChannels))
            }
        }
    }

    /// Returns the organization and the type's name. An invalid name gets the same response as an unknown type.
    private func place(_ exchange: Exchange) throws -> (UUID, String) {
        let name = String(exchange.parameters[1])
        guard EntityType.isValidName(name) else { throw Refusal.notFound }
        return (try exchange.uuid(at: 0), name)
    }
}

extension MemberKind<[UInt8]> {
    /// All routes of a type, as JSON text.
    fileprivate static var routes: Self {
        Self { value, place, report in
            var errors: [ProblemDetail] = []
            let routes = EntityRoutes(value, at: place.pointer, &errors)
            for error in errors { report.refuse(error.pointer, error.rule, error.detail) }
            return routes.json
        }
    }
}

extension EntityTypeUpdate {
    fileprivate static let table = MemberTable<Self, EntityType>("an entity type") {
        BodyMember("name", shown: \.name)
        BodyMember("id_space", .choice(), into: \.idSpace).shown(\.idSpace.rawValue)
        BodyMember("relations", read: readRelations).written { type, writer in
            writer.object { writer in
                for relation in type.relations {
                    writer.name(relation.member)
                    writer.string(relation.entityType)
                }
            }
        }
        BodyMember("on_delete", read: readRules).written { type, writer in
            writer.object { writer in
                for relation in type.relations {
                    writer.name(relation.member)
                    writer.string(relation.onDelete.rawValue)
                }
            }
        }
        BodyMember("visibility", .choice(), into: \.visibility).shown(\.visibility.rawValue)
        BodyMember("channels", .channelTemplates, into: \.channels).shown(\.channels.channels)
        BodyMember("grants", .contentGrants, into: \.grants).shown(\.channels.grants)
        BodyMember("check_channels", .bool(checkChannels, rule: Rule.range), into: \.checksChannels)
            .shown(\.checksChannels)
        BodyMember("default_priority", .integer(0...1_000), into: \.defaultPriority)
            .shown { Int64($0.defaultPriority) }
        BodyMember("upstream", .bool(upstream, rule: Rule.range), into: \.isForwarded).shown(\.isForwarded)
        BodyMember("on_erase", .choice(), into: \.onErase).shown(\.onErase.rawValue)
        BodyMember("routes", .routes, into: \.routes).shown { $0.routes.map { RawJSON($0.json) } }
        BodyMember("in_use", shown: \.isInUse)
    }

    private static let checkChannels =
        "must be true (the gateway checks the right to write) or false (the upstream does)"
    private static let upstream = "must be true (forwarded) or false (in the built-in store)"

    /// Reads the body of `PUT /admin/organizations/{id}/entity-types/{name}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8]) throws(Problem) {
        self = try Self.table.read(body, into: Self())
    }

    /// Reads the rules of `on_delete`. A rule can name a relation that the type does not have.
    @Sendable
    private static func readRules(
        _ value: JSONValue,
        _ place: MemberPlace,
        _ update: inout Self,
        _ report: inout MemberReport
    ) {
        guard let members = value.members else {
            let form = #"an object of relations and their rules: {"folderId":"cascade"}"#
            return report.refuse(place.pointer, Rule.range, "on_delete must be \(form)")
        }
        guard members.reduce(0, { count, _ in count + 1 }) <= Relation.limit else {
            return report.refuse(place.pointer, Rule.range, "a type may have at most \(Relation.limit) relations")
        }
        let choices = DeletionRule.allCases.map(\.rawValue).joined(separator: ", ")
        for (name, rule) in members {
            let pointer = JSONPointer(place.pointer).appending(member: name.string).text
            if !Relation.isValidMember(name.string) {
                let bounds = "1 to \(Relation.maximumNameBytes) bytes without control characters"
                report.refuse(pointer, Rule.range, "a relation is a member of the type's documents, \(bounds)")
            } else if rule.string.flatMap(DeletionRule.init(rawValue:)) == nil {
                report.refuse(pointer, Rule.range, "the rule of a relation must be one of \(choices)")
            }
        }
        update.onDelete = Array(value.raw)
    }

    /// Reads the relations. A relation can lead to a type that is not registered yet.
    @Sendable
    private static func readRelations(
        _ value: JSONValue,
        _ place: MemberPlace,
        _ update: inout Self,
        _ report: inout MemberReport
    ) {
        guard let members = value.members else {
            let form = #"an object of members and entity types: {"folderId":"folder"}"#
            return report.refuse(place.pointer, Rule.range, "relations must be \(form)")
        }
        guard members.reduce(0, { count, _ in count + 1 }) <= Relation.limit else {
            return report.refuse(place.pointer, Rule.range, "a type may have at most \(Relation.limit) relations")
        }
        for (name, target) in members {
            let pointer = JSONPointer(place.pointer).appending(member: name.string).text
            if !Relation.isValidMember(name.string) {
                let bounds = "1 to \(Relation.maximumNameBytes) bytes without control characters"
                report.refuse(pointer, Rule.range, "a relation is a member of the type's documents, \(bounds)")
            } else if target.string.map({ EntityType.isValidName($0) }) != true {
                let detail = "a relation must refer to an entity type, whose name matches [a-z][a-z0-9_-]{0,63}"
                report.refuse(pointer, Rule.entityType, detail)
            }
        }
        update.relations = Array(value.raw)
    }
}

extension EntityType: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) { EntityTypeUpdate.table.write(self, to: &writer) }
}
