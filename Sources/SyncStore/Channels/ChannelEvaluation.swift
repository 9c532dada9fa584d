package import FoundationEssentials
package import Postgres
package import SyncModel

/// Evaluates the templates and grants of a type for entities that were written under other settings.
///
/// A step is one transaction over the next entities in the order of their ids. An interrupted run can start again from
/// the beginning, because entities whose channels and grants are up to date are not written again.
package struct ChannelEvaluation: Sendable {
    /// The result of one step.
    package struct Step: Sendable {
        package var examined = 0
        package var written = 0
        /// The number of entities that are not evaluated, because their documents cannot be decrypted.
        package var unreadable = 0
        /// The last id of the step; nil if there are no further entities.
        package var next: String?
    }

    /// A change of the owner of entities.
    package struct OwnerChange: Sendable {
        private let former: UUID
        private let new: UUID

        package init(from former: UUID, to new: UUID) { (self.former, self.new) = (former, new) }

        /// Client ids belong to the owner, so an entity loses its client id with its owner.
        func applied(to state: EntityState) -> EntityState {
            guard state.owner == former else { return state }
            var state = state
            (state.owner, state.clientID) = (new, nil)
            return state
        }
    }

    /// The effects that an evaluation under other settings would have.
    package struct Preview: Sendable {
        /// The number of the type's entities that are not deleted.
        package var entities: BoundedCount
        package var examined = 0
        /// The number of examined entities that would enter or leave channels.
        package var changed = 0
        /// The number of examined entities with more channels than an entity may be in.
        package var overLimit = 0
        /// The number of examined entities that would be in no channel.
        package var withoutChannels = 0
    }

    /// The maximum number of entities in a step.
    ///
    /// A step also ends once it changes ``WorkBounds/groupGrants`` grants, or ``WorkBounds/groupStays`` rows that
    /// record in which channels entities are or were.
    package static let limit = 200
    /// The maximum number of entities that a preview examines.
    private static let previewed = 1_000
    /// The number of entities that a preview examines before it checks the time again.
    static let previewPart = 50

    let pool: Pool
    let catalog: Catalog
    let notifier: ChangeNotifier
    let metrics: ChannelMetrics
    let now: TimeSource
    let failure: StoreFailure
    /// The time after which a preview examines no further part. Large documents with many channels take long.
    var previewTime = Duration.seconds(5)

    /// Evaluates the entities that follow an id.
    ///
    /// - Returns: the result; nil if the organization has no type of this name.
    package func step(
        of type: String,
        in organization: UUID,
        after last: String,
        limit: Int = limit
    ) async throws(Problem) -> Step? {
        guard let type = try await catalog.entry(organization).types[type] else { return nil }
        if type.grantsToSubjects, type.channels.uuidIssuers == nil {
            let detail = "the type's grants have an issuer, and the settings of tokens are missing in this process"
            throw Problem(.validationFailed, detail + "; start an operation of the kind 'evaluate' instead")
        }
        do {
            let step = try await catalog.opening(organization) { seal in
                try await run(type, organization, SealTable([organization: seal]), after: last, limit: limit)
            }
            metrics.count(step)
            if step.written > 0 { notifier.changed(organization) }
            return step
        } catch {
            throw failure.problem(error, doing: "evaluate channels")
        }
    }

    private func run(
        _ type: EntityType,
        _ organization: UUID,
        _ seals: SealTable,
        after last: String,
        limit: Int
    ) async throws -> Step {
        let moment = now()
        return try await pool.transaction { connection in
            let keys = try await keys(of: type.name, organization, after: last, limit, on: connection)
            guard !keys.isEmpty else { return Step() }
            var step = try await evaluate(
                keys[...],
                [ByteExactString(type.name): type],
                seals,
                now: moment,
                on: connection
            )
            if keys.count < limit, step.examined == keys.count { step.next = nil }
            return step
        }
    }

    /// Evaluates the first of the given entities, in the transaction that changes their owner.
    ///
    /// The transaction has locked the entities. It has not yet raised and thereby locked the feed, because this method
    /// reads documents. The method does at most the work of one step. Documents that cannot be decrypted are not
    /// evaluated.
    ///
    /// - Parameters:
    ///   - types: the organization's types, read before the transaction.
    ///   - change: the former and the new owner, if the transaction writes the new owner later.
    /// - Returns: the number of keys, counted from the start, that need no further evaluation; at least 1.
    package func evaluate(
        _ keys: [EntityKey],
        ofChangedOwnersIn organization: UUID,
        _ types: [ByteExactString: EntityType],
        _ seal: Seal,
        change: OwnerChange? = nil,
        on connection: Connection
    ) async throws -> Int {
        let places = keys.indices.filter { types[keys[$0].type]?.channelRules?.dependOnOwner == true }
        guard !places.isEmpty else { return keys.count }
        let part = places.prefix(Self.limit).map { (organization: organization, key: keys[$0]) }
        let seals = SealTable([organization: seal])
        let step = try await evaluate(part[...], types, seals, change, now: now(), on: connection)
        metrics.count(step)
        let examined = max(step.examined, 1)
        return examined < places.count ? places[examined] : keys.count
    }

    /// Evaluates the first of the given entities, up to the bounds of a step.
    ///
    /// Tombstones are evaluated only if they were written when the type had no channels: they leave the channel that
    /// represents the type's former visibility, so that devices that saw the entities get `removed`.
    private func evaluate(
        _ keys: ArraySlice<EntityRows.Key>,
        _ types: [ByteExactString: EntityType],
        _ seals: SealTable,
        _ change: OwnerChange? = nil,
        now moment: Timestamp,
        on connection: Connection
    ) async throws -> Step {
        guard let organization = keys.first?.organization else { return Step() }
        var tables: [UUID: EntityTable] = [:]
        let granted = Self.granted(
            organization: organization,
            sources: keys.map { GrantSource.entity($0.key).text }
        )
        let entities = EntityRows.query(.locking, Array(keys), documentBytes: WorkBounds.bulkContents)
        let results = try await connection.runByIndex([entities, granted])
        try EntityRows.loadBounded(results[0], into: &tables, seals)
        let present = try Self.grants(results[1])
        let evaluated = Self.read(keys, tables).map { _, key in
            let state = tables[organization]?[key].map { change?.applied(to: $0) ?? $0 }
            let isLost = state.map { $0.isUnreadable || $0.isDeleted && $0.stored?.channels != nil } ?? true
            return (
                key: key, state: state, placed: isLost ? nil : state?.placed(by: types[key.type]?.channelRules, key)
            )
        }
        let changed = evaluated.compactMap { key, _, placed in
            let granted = Set(placed?.grants ?? [])
            return granted == present[Self.source(of: key)] ?? [] ? nil : granted
        }
        let holders = try await Self.holders(of: changed, in: organization, on: connection)
        var step = Step()
        var writes: [(key: EntityKey, state: EntityState)] = []
        var changes = ChannelChanges()
        for (key, state, placed) in evaluated
        where changes.grants < WorkBounds.groupGrants && changes.stays < WorkBounds.groupStays {
            step.examined += 1
            step.next = key.id
            guard let state, var placed else {
                if state?.isDeleted == false { step.unreadable += 1 }
                continue
            }
            let before = present[Self.source(of: key)] ?? []
            var granted = Set(placed.grants ?? [])
            if granted != before { granted = Set(granted.compactMap { $0.granted(to: holders[$0.holder]) }) }
            // an empty list ends the grants that the entity no longer makes
            placed.grants = granted == before ? nil : placed.grants ?? []
            guard placed.channels != state.stored?.channels || placed.grants != nil else { continue }
            writes.append((key, placed))
            changes += ChannelChanges(stays: placed.stays.count)
            if placed.grants != nil { changes += ChannelChanges(from: before, to: granted) }
        }
        step.written = writes.count
        if !writes.isEmpty {
            let changes: [EntityRows.Writes] = [(organization, writes)]
            let queries = [EntityRows.raiseFeeds(changes)] + (try EntityRows.write(changes, now: moment, seals))
            metrics.count(queries, try await connection.run(queries))
        }
        return step
    }

    private func keys(
        of type: String,
        _ organization: UUID,
        after last: String,
        _ limit: Int,
        on connection: Connection
    ) async throws -> [EntityRows.Key] {
        let page = Self.page(organization: organization, type: type, after: last, limit: Int64(limit))
        return try await connection.runByIndex(page).read { row in
            (organization, EntityKey(type: type, id: try row.read("id")))
        }
    }

    /// Returns the first keys of a page, before the first entity whose document exceeds the read limit.
    private static func read(
        _ keys: ArraySlice<EntityRows.Key>,
        _ tables: [UUID: EntityTable]
    ) -> ArraySlice<EntityRows.Key> {
        keys.prefix { tables[$0.organization]?[$0.key]?.unreadBytes ?? 0 == 0 }
    }

    private static func source(of key: EntityKey) -> ByteExactString { ByteExactString(GrantSource.entity(key).text) }

    /// Reads which users hold the given grants, which name users or subjects.
    private static func holders(
        of grants: [Set<GrantedChannel>],
        in organization: UUID,
        on connection: Connection
    ) async throws -> [GrantHolder: UUID] {
        let rows = Set(grants.joined().map(\.holder)).map { HolderRow(organization: organization, holder: $0) }
        guard !rows.isEmpty else { return [:] }
        return try HolderRow.holders(
            await connection.runByIndex(HolderRow.columns.query(ChannelStatements.holders, rows))
        )
    }

    private static func grants(_ rows: Rows) throws -> [ByteExactString: Set<GrantedChannel>] {
        var grants: [ByteExactString: Set<GrantedChannel>] = [:]
        for var row in rows {
            let source: String = try row.read("source")
            let grant = GrantedChannel(
                to: .user(try row.read("user_id")),
                channel: try row.read("name"),
                role: try row.choice("role")
            )
            grants[ByteExactString(source), default: []].insert(grant)
        }
        return grants
    }

    /// Checks that an organization has a type of this name.
    ///
    /// - Throws: `validation_failed` if there is no such type.
    package func check(_ type: String, in organization: UUID) async throws(Problem) {
        guard try await catalog.entry(organization).types[type] == nil else { return }
        let detail = "'\(type)' is not a registered entity type of this organization"
        throw Problem(.validationFailed, pointer: "/filter/entity_type", rule: Rule.entityType, detail)
    }

    // MARK: - Previews

    /// The number of a type's entities that are not deleted, counted up to a limit.
    package func count(of type: String, in organization: UUID) async throws(Problem) -> BoundedCount {
        do {
            let query = Self.count(organization: organization, type: type, limit: BoundedCount.limit + 1)
            return BoundedCount(found: try await pool.readByIndex([query])[0].read(0, 0, as: Int64.self))
        } catch {
            throw failure.problem(error, doing: "count entities")
        }
    }

    /// Returns the effects that an evaluation under the settings of `type` would have.
    ///
    /// The preview examines only the first entities, and writes nothing.
    package func preview(_ type: EntityType, in organization: UUID) async throws(Problem) -> Preview {
        let entities = try await count(of: type.name, in: organization)
        do {
            return try await catalog.opening(organization) { seal in
                var preview = Preview(entities: entities)
                let page = Self.page(
                    organization: organization,
                    type: type.name,
                    after: "",
                    limit: Int64(Self.previewed)
                )
                let keys: [EntityRows.Key] = try await pool.readByIndex([page])[0].read { row in
                    (organization, EntityKey(type: type.name, id: try row.read("id")))
                }
                // the parts are small enough to hold their documents in memory
                var left = keys[...]
                let end = ContinuousClock.now + previewTime
                while !left.isEmpty, left.count == keys.count || .now < end {
                    var tables: [UUID: EntityTable] = [:]
                    let part = Array(left.prefix(Self.previewPart))
                    let query = EntityRows.query(.reading, part, documentBytes: WorkBounds.bulkContents)
                    let rows = try await pool.readByIndex([query])[0]
                    try EntityRows.loadBounded(rows, into: &tables, SealTable([organization: seal]))
                    let examined = Self.read(left.prefix(part.count), tables)
                    left = left.dropFirst(examined.count)
                    for (_, key) in examined {
                        guard let state = tables[organization]?[key], !state.isDeleted, !state.isUnreadable else {
                            continue
                        }
                        preview.add(state, key, type)
                    }
                }
                return preview
            }
        } catch {
            throw failure.problem(error, doing: "preview an evaluation of channels")
        }
    }

    // MARK: - Statements

    private static let page = Statement(
        "channels_evaluation_page",
        ["organization", "type", "after", "limit"],
        """
        SELECT e.id::text AS id FROM entities e
        WHERE e.organization_id = :organization AND e.entity_type = :type AND e.id > :after::text
        ORDER BY e.id LIMIT :limit
        """
    )

    private static let count = Statement(
        "channels_evaluation_count",
        ["organization", "type", "limit"],
        """
        SELECT count(*) AS count FROM (
            SELECT FROM entities e
            WHERE e.organization_id = :organization AND e.entity_type = :type AND NOT e.is_deleted LIMIT :limit) x
        """
    )

    /// Reads the grants that entities make at present.
    private static let granted = Statement(
        "channels_granted",
        ["organization", "sources"],
        """
        SELECT g.source, g.user_id, g.name, g.role FROM channel_grants g
        WHERE g.organization_id = :organization AND g.source = ANY (:sources::text[]) AND g.until IS NULL
        """
    )

    static let statements = [page, count, granted]
}

extension ChannelEvaluation.Preview {
    fileprivate mutating func add(_ state: EntityState, _ key: EntityKey, _ type: EntityType) {
        examined += 1
        let id = ServerID(text: key.id, isInteger: state.isIntegerID)
        let names = type.channelRules?.names(document: state.document, id: id, owner: state.owner)
        let channels = names?.prefix(ChannelName.limitOfEntity).map(ChannelID.init(named:))
        if channels != state.stored?.channels { changed += 1 }
        guard let names else { return }
        if names.count > ChannelName.limitOfEntity { overLimit += 1 }
        if names.isEmpty { withoutChannels += 1 }
    }
}
