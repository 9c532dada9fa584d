package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
package import SyncStore

extension Administration {
    package func entityType(_ name: String, in organization: UUID) async throws(Problem) -> EntityType? {
        let key = Self.key(name, in: organization)
        return try await rows(Self.getTypeStatement, key, "read an entity type", EntityTypeRow.read).first
    }

    /// Returns a page of an organization's entity types, sorted by name; nil if the organization does not exist.
    ///
    /// `next` is the name of the page's last type if more types follow; otherwise it is nil.
    ///
    /// - Parameter limit: 1 to 1,000.
    package func entityTypes(
        of organization: UUID,
        limit: Int,
        after last: String?
    ) async throws(Problem) -> (types: [EntityType], next: String?)? {
        guard try await self.organization(organization) != nil else { return nil }
        let parameters = Parameters(of: organization, last ?? "", limit + 1)
        let found = try await rows(Self.listTypesStatement, parameters, "list entity types", EntityTypeRow.read)
        let shown = Array(found.prefix(limit))
        return (shown, found.count > limit ? shown.last?.name : nil)
    }

    /// Registers or changes an entity type (product rule 16). Returns nil if the organization does not exist.
    ///
    /// - Throws:
    ///   - `id_space_is_immutable` if the update changes the id space of a type that already has a mutation or an
    ///     entity.
    ///   - `validation_failed` if the type is to be forwarded and there is no upstream.
    ///   - `validation_failed` if a type in use would lose a relation.
    package func putEntityType(
        _ name: String,
        in organization: UUID,
        _ update: EntityTypeUpdate,
        by actor: String = "operator"
    ) async throws(Problem) -> (isNew: Bool, value: EntityType)? {
        guard EntityType.isValidName(name) else {
            let detail = "an entity type's name matches [a-z][a-z0-9_-]{0,63}"
            throw Problem(.validationFailed, pointer: "", rule: Rule.entityType, detail)
        }
        guard try await self.organization(organization) != nil else { return nil }
        let moment = now()
        do {
            let (results, isExpiring) = try await pool.transaction { connection in
                let (known, next, hasUpstream) = try await Self.change(update, name, in: organization, on: connection)
                try update.checkRoutes(of: next)
                let evaluation =
                    known?.needsEvaluation(as: next) ?? false
                    ? [
                        ChannelStatements.startEvaluation(
                            organization: organization,
                            type: name,
                            actor: actor,
                            now: moment,
                            due_at: moment.adding(seconds: Self.settingsSeconds)
                        )
                    ] : []
                let isExpiring = try await Self.expiresCursors(known, next, in: organization, on: connection)
                // the ids of subjects depend on the organization's salt
                let salt = next.grantsToSubjects ? [Identities.makeSalt(for: organization)] : []
                let results = try await connection.run(
                    salt + [
                        Query(Self.makeTypeStatement, update.making(name, in: organization, hasUpstream: hasUpstream)),
                        Query(Self.changeTypeStatement, update.changing(name, in: organization)),
                        Query(Self.getTypeStatement, Self.key(name, in: organization)),
                    ] + evaluation + (isExpiring ? [Self.expireCursors(organization: organization)] : [])
                )
                return (Array(results.dropFirst(salt.count)), isExpiring)
            }
            catalog.invalidate(organization)
            if isExpiring { store.notifier.changed(organization) }
            if let changed = try results[1].read(EntityTypeRow.read).first {
                return (results[0].affected > 0, changed)
            }
            // nil if a concurrent change has removed the reason for the refusal
            let refusal = try results[2].read(EntityTypeRow.read).first.flatMap { try update.refusal(of: $0) }
            throw refusal ?? Problem.overloaded("the entity type is being changed by another request")
        } catch {
            throw failure.problem(error, doing: "write an entity type")
        }
    }

    private static func expiresCursors(
        _ known: EntityType?,
        _ next: EntityType,
        in organization: UUID,
        on connection: Connection
    ) async throws -> Bool {
        guard let known else { return false }
        guard known.expiresCursorsUnlessEvaluated(as: next) else { return known.expiresCursors(as: next) }
        let last = ChannelStatements.lastEvaluation(organization: organization, type: known.name)
        return try await connection.run(last).read { try $0.read("is_done", as: Bool.self) }.first != true
    }

    /// Returns a type's settings after an update, without writing the update; nil if the organization does not exist.
    ///
    /// - Throws: the same errors as ``putEntityType(_:in:_:by:)``.
    package func entityType(
        _ name: String,
        in organization: UUID,
        after update: EntityTypeUpdate
    ) async throws(Problem) -> EntityType? {
        guard try await self.organization(organization) != nil else { return nil }
        do {
            return try await pool.transaction { connection in
                let change = try await Self.change(update, name, in: organization, on: connection)
                if let known = change.known, known.isInUse, let refusal = try update.refusal(of: known) {
                    throw refusal
                }
                return change.next
            }
        } catch {
            throw failure.problem(error, doing: "validate an entity type")
        }
    }

    /// Locks a type, and checks an update of it.
    private static func change(
        _ update: EntityTypeUpdate,
        _ name: String,
        in organization: UUID,
        on connection: Connection
    ) async throws -> (known: EntityType?, next: EntityType, hasUpstream: Bool) {
        let hasUpstream = try await hasUpstream(organization, on: connection)
        if update.isForwarded == true, !hasUpstream { throw noUpstream }
        let known = try await connection.run(Query(lockTypeStatement, key(name, in: organization)))
            .read(EntityTypeRow.read).first
        let next = try update.applied(to: known, name, hasUpstream: hasUpstream)
        if let problem = next.channelProblem { throw Problem(.validationFailed, problem.detail, errors: [problem]) }
        return (known, next, hasUpstream)
    }

    private static func key(_ name: String, in organization: UUID) -> Parameters {
        Parameters(of: organization, name)
    }

    private static func hasUpstream(_ organization: UUID, on connection: Connection) async throws -> Bool {
        try await connection.run(Query(getUpstreamStatement, Parameters(of: organization))).count > 0
    }

    private static var noUpstream: Problem {
        let detail =
            "the organization has no upstream; set it first with PUT /admin/organizations/{id}/upstream"
        return Problem(.validationFailed, pointer: "/upstream", rule: Rule.range, detail)
    }

    // MARK: - Statements

    static let getTypeStatement = Statement(
        "entity_types_get",
        ["organization", "name"],
        """
        SELECT \(EntityTypeRow.list) FROM entity_types t WHERE t.organization_id = :organization AND t.name = :name
        """
    )

    static let listTypesStatement = Statement(
        "entity_types_list",
        ["organization", "after", "limit"],
        """
        SELECT \(EntityTypeRow.list) FROM entity_types t
        WHERE t.organization_id = :organization AND t.name > :after ORDER BY t.name LIMIT :limit
        """
    )

    /// Makes the positions of all cursors of the feed invalid.
    static let expireCursors = Statement(
        "entity_types_expire_cursors",
        ["organization"],
        """
        UPDATE feeds AS f SET last_position = f.last_position + 1, horizon = f.last_position + 1
        WHERE f.organization_id = :organization
        """
    )

    static let makeTypeStatement = Statement(
        "entity_types_make",
        [
            "organization", "name", "id_space", "visibility", "default_priority", "is_forwarded", "relations",
            "on_delete", "on_erase", "routes", "channels", "grants", "check_channels",
        ],
        """
        INSERT INTO entity_types AS t (
            organization_id, name, id_space, visibility, default_priority, is_forwarded, relations, on_delete, on_erase,
            routes, channels, grants, check_channels)
        VALUES (:organization, :name, :id_space, :visibility, :default_priority, :is_forwarded, coalesce(:relations::jsonb, '{}'),
            coalesce(:on_delete::jsonb, '{}'), coalesce(:on_erase, 'delete'), :routes,
            coalesce(:channels::jsonb, '[]'), coalesce(:grants::jsonb, '[]'),
            coalesce(:check_channels, false))
        ON CONFLICT (organization_id, name) DO NOTHING
        """
    )

    /// Changes a type. Returns no row if a type in use would lose its id space or a relation, because stored documents
    /// contain ids of the related types.
    static let changeTypeStatement = Statement(
        "entity_types_change",
        [
            "organization", "name", "id_space", "visibility", "default_priority", "is_forwarded", "relations",
            "on_delete", "on_erase", "changes_routes", "routes", "channels", "grants", "check_channels",
        ],
        """
        UPDATE entity_types AS t
        SET id_space = coalesce(:id_space, t.id_space), visibility = coalesce(:visibility, t.visibility),
            channels = coalesce(:channels::jsonb, t.channels), grants = coalesce(:grants::jsonb, t.grants),
            -- kept, because users who saw an entity under this visibility may have to receive `removed` for it
            former_visibility = CASE
                WHEN :visibility = 'channels' AND t.visibility <> 'channels' THEN t.visibility ELSE t.former_visibility END,
            default_priority = coalesce(:default_priority, t.default_priority), is_forwarded = coalesce(:is_forwarded, t.is_forwarded),
            relations = coalesce(:relations::jsonb, t.relations), on_delete = coalesce(:on_delete::jsonb, t.on_delete),
            on_erase = coalesce(:on_erase, t.on_erase),
            check_channels = coalesce(:check_channels, t.check_channels),
            routes = CASE WHEN :changes_routes::bool THEN :routes::jsonb ELSE t.routes END
        WHERE t.organization_id = :organization AND t.name = :name
            AND (NOT t.is_in_use OR coalesce(:id_space, t.id_space) = t.id_space
                AND coalesce(:relations::jsonb, t.relations) @> t.relations)
        RETURNING \(EntityTypeRow.list)
        """
    )

    /// Locks a type, so that its visibility and its channels are checked together.
    static let lockTypeStatement = Statement(
        "entity_types_lock",
        ["organization", "name"],
        """
        SELECT \(EntityTypeRow.list) FROM entity_types t WHERE t.organization_id = :organization AND t.name = :name
        FOR UPDATE
        """
    )

    static let typeStatements = [
        lockTypeStatement, getTypeStatement, listTypesStatement, expireCursors,
        makeTypeStatement, changeTypeStatement,
    ]
}

extension Administration {
    /// The time in seconds after which all gateways use a type's new settings.
    private static let settingsSeconds: Double = 6
}

extension EntityTypeUpdate {
    /// The parameters that register the type. If the update omits a member, the member gets the same value as in a type
    /// that is registered by its first use.
    fileprivate func making(_ name: String, in organization: UUID, hasUpstream: Bool) -> Parameters {
        let first = EntityType(firstUseOf: name, hasUpstream: isForwarded ?? hasUpstream)
        let parameters = Parameters(
            of: organization,
            name,
            (idSpace ?? first.idSpace).rawValue,
            (visibility ?? first.visibility).rawValue,
            defaultPriority ?? first.defaultPriority,
            first.isForwarded,
            PostgresJSONB(relations),
            PostgresJSONB(onDelete),
            onErase?.rawValue,
            PostgresJSONB(routes.value),
            PostgresJSONB(storedChannels),
            PostgresJSONB(storedGrants),
            checksChannels
        )
        return parameters
    }

    /// The parameters that change the type; null for members that stay unchanged.
    fileprivate func changing(_ name: String, in organization: UUID) -> Parameters {
        let parameters = Parameters(
            of: organization,
            name,
            idSpace?.rawValue,
            visibility?.rawValue,
            defaultPriority,
            isForwarded,
            PostgresJSONB(relations),
            PostgresJSONB(onDelete),
            onErase?.rawValue,
            routes.changes,
            PostgresJSONB(routes.value),
            PostgresJSONB(storedChannels),
            PostgresJSONB(storedGrants),
            checksChannels
        )
        return parameters
    }

    /// Returns the type after the update.
    fileprivate func applied(to known: EntityType?, _ name: String, hasUpstream: Bool) throws -> EntityType {
        var type = known ?? EntityType(firstUseOf: name, hasUpstream: isForwarded ?? hasUpstream)
        if let idSpace { type.idSpace = idSpace }
        let rules = try onDelete.map { try JSONTree(parsing: $0).root }
        if relations != nil || rules != nil {
            let json = try JSONTree(parsing: relations ?? type.storedRelations).root
            let before = type.relations
            type.relations = EntityType.relations(stored: json, rules: rules)
            if rules == nil {
                for (index, relation) in type.relations.enumerated() {
                    guard let same = before.first(where: { $0.member == relation.member }) else { continue }
                    type.relations[index].onDelete = same.onDelete
                }
            }
        }
        if let defaultPriority { type.defaultPriority = defaultPriority }
        if let onErase { type.onErase = onErase }
        if routes.changes {
            type.routes = try routes.value.map { EntityRoutes(stored: try JSONTree(parsing: $0).root) }
        }
        if let visibility { type.visibility = visibility }
        if let isForwarded { type.isForwarded = isForwarded }
        if let channels { type.channels.channels = channels }
        if let grants { type.channels.grants = grants }
        if let checksChannels { type.checksChannels = checksChannels }
        if visibility == .channels, let known, known.visibility != .channels {
            type.formerVisibility = known.visibility
        }
        return type
    }

    private var storedChannels: [UInt8]? {
        channels.map { channels in
            var writer = JSONWriter()
            channels.write(to: &writer)
            return writer.bytes
        }
    }

    private var storedGrants: [UInt8]? {
        grants.map { grants in
            var writer = JSONWriter()
            grants.write(to: &writer)
            return writer.bytes
        }
    }

    /// Refuses the update if it would result in an invalid combination of routes and id space.
    fileprivate func checkRoutes(of type: EntityType) throws(Problem) {
        guard routes.changes || idSpace != nil, let problem = type.routes?.problem(in: type.idSpace) else { return }
        let pointer = routes.changes ? problem.pointer : "/id_space"
        throw Problem(.validationFailed, pointer: pointer, rule: problem.rule, problem.detail)
    }

    /// The reason why a type in use cannot be changed; nil if it can be changed.
    fileprivate func refusal(of type: EntityType) throws -> Problem? {
        if let idSpace, idSpace != type.idSpace {
            let detail = "'\(type.name)' has mutations or entities, so its id space is fixed; use another type"
            return Problem(.idSpaceIsImmutable, pointer: "/id_space", rule: "id_space_is_immutable", detail)
        }
        guard let relations else { return nil }
        let wanted = EntityType.relations(stored: try JSONTree(parsing: relations).root)
        func isKept(_ relation: Relation) -> Bool {
            wanted.contains { $0.member == relation.member && $0.entityType == relation.entityType }
        }
        guard let lost = type.relations.first(where: { !isKept($0) }) else { return nil }
        let detail =
            "'\(type.name)' has mutations or entities, whose '\(lost.member)' contains ids of '\(lost.entityType)': "
            + "keep the relation, and use another member for another purpose"
        let pointer = JSONPointer("/relations").appending(member: lost.member).text
        return Problem(.validationFailed, pointer: pointer, rule: "relation_is_immutable", detail)
    }
}

/// Changes an entity type, or describes a new type.
///
/// A member that is nil keeps its value. In a new type, such a member gets the same value as in a type that is
/// registered by its first use.
package struct EntityTypeUpdate: Sendable {
    package var idSpace: IDSpace?
    package var visibility: Visibility?
    /// 0 to 1,000.
    package var defaultPriority: Int16?
    package var isForwarded: Bool?
    /// All relations as JSON text.
    package var relations: [UInt8]?
    /// The deletion rules that differ from the default, by relation, as JSON text.
    package var onDelete: [UInt8]?
    package var onErase: OnErase?
    /// All routes as JSON text.
    package var routes: Change<[UInt8]> = .keep
    /// All templates.
    package var channels: [ChannelTemplate]?
    package var grants: [ContentGrant]?
    package var checksChannels: Bool?

    package init() {}
}

extension Change<[UInt8]> {
    fileprivate var changes: Bool { if case .keep = self { false } else { true } }
    fileprivate var value: [UInt8]? { if case .set(let value) = self { value } else { nil } }
}
