package import FoundationEssentials
import JSONText
package import Postgres
package import SyncModel

/// Reads and writes rows of `entities`.
package enum EntityRows {
    /// The writes of a transaction to one organization, at most one for each entity, in the order of execution.
    typealias Writes = (organization: UUID, writes: [(key: EntityKey, state: EntityState)])

    /// The columns of an entity, for a table called `table`.
    ///
    /// - Parameter document: the expression that replaces the column of the document; nil for the column itself.
    package static func list(of table: String, document: String? = nil) -> String {
        let names = [
            "organization_id", "entity_type", "id", "id_is_integer", "version", "is_deleted", "document", "owner_id",
            "client_id", "updated_by", "updated_on", "run_base", "etag", "channels", "feed_position",
        ]
        return names.map { name in
            name == "document" ? document.map { "\($0) AS document" } ?? "\(table).document" : "\(table).\(name)"
        }.joined(separator: ", ")
    }

    /// Reads the columns of ``list(of:document:)``.
    package static func read(_ row: inout RowReader, _ seals: SealTable) throws -> (of: Key, state: EntityState) {
        let organization: UUID = try row.read("organization_id")
        let key = try row.entityKey()
        let place = SealedPlace.document(type: key.type, id: key.id)
        var unreadable: [String] = []
        var state = EntityState(
            isIntegerID: try row.read("id_is_integer"),
            version: try row.read("version"),
            isDeleted: try row.read("is_deleted"),
            document: try seals[organization].read(json: row.read("document"), as: place, &unreadable),
            owner: try row.read("owner_id"),
            clientID: try row.read("client_id"),
            lastWriter: Writer(user: try row.read("updated_by"), device: try row.read("updated_on")),
            runBase: try row.read("run_base")
        )
        state.isStored = true
        state.etag = try row.read("etag")
        state.channels = try row.read("channels", as: [UUID]?.self)?.map(ChannelID.init)
        state.stored = StoredPlace(position: try row.read("feed_position"), channels: state.channels)
        state.isUnreadable = !unreadable.isEmpty
        return ((organization, key), state)
    }

    /// Loads the rows of ``EntityStatements/lockEntities`` or ``EntityStatements/readEntities``.
    static func load(_ rows: Rows, into tables: inout [UUID: EntityTable], _ seals: SealTable) throws {
        var lacking = LackingKeys()
        for var row in rows {
            guard let (of, state) = try lacking.collect({ try read(&row, seals) }) else { continue }
            tables[of.organization, default: EntityTable()].load(of.key, state)
        }
        try lacking.check()
    }

    /// Loads the rows of ``EntityStatements/lockBounded`` and of similar statements, which omit documents beyond a
    /// number of bytes.
    ///
    /// - Parameter hasTargets: whether the rows mark the entities that are read only because other entities refer to
    ///   them.
    static func loadBounded(
        _ rows: Rows,
        hasTargets: Bool = false,
        into tables: inout [UUID: EntityTable],
        _ seals: SealTable
    ) throws {
        var lacking = LackingKeys()
        for var row in rows {
            let found = try lacking.collect { () throws -> (of: Key, state: EntityState) in
                var (of, state) = try read(&row, seals)
                let bytes: Int = try row.read("bytes")
                if hasTargets { state.isTarget = try row.read("is_target") }
                if state.document == nil, !state.isUnreadable, !state.isDeleted { state.unreadBytes = bytes }
                return (of, state)
            }
            guard let (of, state) = found else { continue }
            if state.isTarget, tables[of.organization]?[of.key] != nil { continue }
            tables[of.organization, default: EntityTable()].load(of.key, state)
        }
        try lacking.check()
    }

    /// Reads the document and the owner from a row of ``EntityStatements/lockEntities``; nil without a document.
    package static func document(
        _ row: inout RowReader
    ) throws -> (key: EntityKey, document: [UInt8], owner: UUID)? {
        row.skip("organization_id")
        let key = try row.entityKey()
        for column in ["id_is_integer", "version", "is_deleted"] as [StaticString] { row.skip(column) }
        guard let document: [UInt8] = try row.read("document") else { return nil }
        return (key, document, try row.read("owner_id", as: UUID.self))
    }

    /// An entity, identified by its organization and server id.
    package typealias Key = (organization: UUID, key: EntityKey)

    /// The columns of an entity's key.
    package static let keys = Columns<Key>(
        .value("organization_id") { $0.organization },
        .value("entity_type") { $0.key.type },
        .value("id") { $0.key.id }
    )

    /// The query that locks entities by their server ids.
    package static func lock(_ entities: [Key]) -> Query { query(EntityStatements.lockEntities, entities) }

    /// The query that locks entities, and the entities to which they refer.
    ///
    /// Load the result with ``loadBounded(_:hasTargets:into:_:)``.
    static func lock(_ entities: [Key], referringTo targets: [Key]) -> Query {
        var parameters = Parameters()
        for keys in [entities, targets] {
            self.keys.add(keys, to: &parameters)
            PushEntityRow.mapped.add([], to: &parameters)
            PushEntityRow.own.add([], to: &parameters)
        }
        parameters.add(Int64.max)
        return Query(EntityStatements.lockRelated, parameters)
    }

    /// The query that reads entities by their server ids, without waiting for row locks.
    package static func find(at entities: [Key]) -> Query { query(EntityStatements.readEntities, entities) }

    /// The query that locks or reads entities. It omits documents beyond a number of bytes.
    ///
    /// Load the result with ``loadBounded(_:hasTargets:into:_:)``.
    static func query(_ access: GroupReader.Access, _ entities: [Key], documentBytes: Int) -> Query {
        var parameters = named(entities)
        parameters.add(documentBytes)
        return Query(access == .locking ? EntityStatements.lockBounded : EntityStatements.readBounded, parameters)
    }

    private static func query(_ statement: Statement, _ entities: [Key]) -> Query {
        Query(statement, named(entities))
    }

    private static func named(_ entities: [Key]) -> Parameters {
        var parameters = keys.parameters(entities)
        PushEntityRow.mapped.add([], to: &parameters)
        return parameters
    }

    /// The columns for ``EntityStatements/raiseFeeds``: each organization, and the number of its writes.
    static let raises = Columns<Writes>(
        .value("organization_id") { $0.organization },
        .value("writes") { Int64($0.writes.count) }
    )

    /// The query that raises the position counters of the changed organizations' feeds.
    ///
    /// A transaction takes the locks of feeds after all other locks.
    static func raiseFeeds(_ changes: [Writes]) -> Query { raises.query(EntityStatements.raiseFeeds, changes) }

    private static func seal(_ rows: inout [EntityRow], _ seals: SealTable) throws(SealError) {
        var lacking = LackingKeys()
        for index in rows.indices {
            _ = try lacking.collect { () throws(SealError) in try rows[index].seal(seals) }
        }
        try lacking.check()
    }

    /// The queries that write entities. Run ``raiseFeeds(_:)`` first, because the entities get the last positions of
    /// the raised feeds.
    static func write(_ changes: [Writes], now: Timestamp, _ seals: SealTable) throws(SealError) -> [Query] {
        var rows = changes.flatMap { organization, writes in
            writes.enumerated().map { place, write in
                EntityRow(
                    organization: organization,
                    key: write.key,
                    state: write.state,
                    beforeEnd: Int64(writes.count - 1 - place)
                )
            }
        }
        let areAsStored =
            seals.arePlain
            && !rows.contains { $0.state.document.map { SealedText.needsEscape(json: $0[...]) } ?? false }
        if !areAsStored { try seal(&rows, seals) }
        let known = rows.filter(\.state.isStored)
        let new = known.isEmpty ? rows : rows.filter { !$0.state.isStored }
        var channels = ChannelWrites()
        for row in rows where row.concernsChannels { channels.add(row) }
        var queries = channels.queries
        for rows in chunks(new) {
            queries.append(
                rows.contains(where: \.concernsChannels)
                    ? EntityRow.inChannels.query(EntityStatements.makeEntitiesInChannels, rows, at: now)
                    : EntityRow.columns.query(EntityStatements.makeEntities, rows, at: now)
            )
        }
        for rows in chunks(known) {
            queries.append(
                rows.contains(where: \.concernsChannels)
                    ? EntityRow.inChannels.query(EntityStatements.changeEntitiesInChannels, rows, at: now)
                    : EntityRow.columns.query(EntityStatements.changeEntities, rows, at: now)
            )
        }
        return queries + ReferenceRows.write(rows)
    }

    /// The maximum bytes of documents that one statement writes. The last document of a statement can exceed this
    /// limit.
    private static let statementBytes = 8_388_608

    /// Divides rows into parts that are written by separate statements.
    private static func chunks(_ rows: [EntityRow]) -> [[EntityRow]] {
        var chunks: [[EntityRow]] = []
        var (start, bytes) = (0, 0)
        for (index, row) in rows.enumerated() {
            bytes += row.state.document?.count ?? 0
            guard bytes >= statementBytes else { continue }
            chunks.append(Array(rows[start...index]))
            (start, bytes) = (index + 1, 0)
        }
        if start == 0, !rows.isEmpty { return [rows] }
        if start < rows.count { chunks.append(Array(rows[start...])) }
        return chunks
    }
}

/// An entity to be written, with the number of writes to its organization that follow in this transaction.
struct EntityRow {
    let organization: UUID
    let key: EntityKey
    var state: EntityState
    let beforeEnd: Int64

    static let columns = Columns<EntityRow>(
        .value("organization_id", \.organization),
        .value("entity_type", \.key.type),
        .value("id", \.key.id),
        .value("id_is_integer", \.state.isIntegerID),
        .value("version", \.state.version),
        .value("is_deleted", \.state.isDeleted),
        .json("document", \.state.document),
        .value("before_end", \.beforeEnd),
        .value("owner_id", \.state.owner),
        .value("client_id", \.state.clientID),
        .value("updated_by", \.state.lastWriter.user),
        .value("updated_on", \.state.lastWriter.device),
        .value("run_base", \.state.runBase),
        .value("etag", \.state.etag)
    )

    /// The columns of an entity of a type with channels.
    static let inChannels = Columns<EntityRow>(columns, .value("channels", \.channelList))

    /// Whether the entity is or was in channels. In most transactions, no entity is in channels.
    var concernsChannels: Bool { state.channels != nil || state.stored?.channels != nil }

    /// The channels as the text of a PostgreSQL array, because ``Columns`` has no form for an array of arrays.
    private var channelList: String? {
        state.channels.map { "{" + $0.map(\.uuid.lowercased).joined(separator: ",") + "}" }
    }

    /// Seals the document for storage.
    mutating func seal(_ seals: SealTable) throws(SealError) {
        let place = SealedPlace.document(type: key.type, id: key.id)
        let seal = seals[organization]
        let owner = seal.user(ofType: key.type, owner: state.owner)
        state.document = try seal.seal(json: state.document, as: place, of: owner)
    }
}

/// SQL for whether a mapping is no longer needed for idempotency records.
///
/// A mapping is needed because a repeat can name an entity by its server id although the first request contained the
/// client id, or vice versa.
package enum MappingNeed {
    /// The maximum number of a user's mutations that are examined. If all of them are open, each later mutation is
    /// treated as an idempotency record.
    private static let examined = 16

    /// The time in seconds by which a recorded use can be earlier than the real last use.
    ///
    /// Uses are recorded once a day, and the clocks of gateways may differ.
    private static let tolerance = Int(MappingUse.precision) + 3_600

    /// SQL for whether a mapping `i` was last used before all idempotency records of its user were accepted.
    ///
    /// While the entity or its tombstone exists, each mutation that names the server id is also a use of the mapping,
    /// because a repeat can name the client id instead. These uses are not recorded one by one. Instead, the deletion
    /// of a tombstone records a use.
    ///
    /// A user's mutations have positions in the order of acceptance. Therefore the first mutations show the age of the
    /// oldest record. A join moves mutations to later positions, and records a use of their mappings
    /// (``UserMoves/mergeMappings``). ``NeededIDs`` covers open mutations. Every position is positive, but without the
    /// condition `position >= 0` PostgreSQL would not use the index.
    ///
    /// - Parameter lastUse: SQL for the time of the last use. Mappings from older gateways have no recorded use.
    package static func isOver(since lastUse: String = "coalesce(i.last_used_at, i.resolved_at, i.created_at)")
        -> String
    {
        """
        \(lastUse) + interval '\(tolerance) seconds' < (
                    SELECT CASE
                        WHEN count(f.synced_at) > 0 THEN min(f.accepted_at) FILTER (WHERE f.synced_at IS NOT NULL)
                        WHEN count(*) = \(examined) THEN max(f.accepted_at)
                        ELSE 'infinity' END
                    FROM (
                        SELECT x.accepted_at, x.synced_at FROM mutations x
                        WHERE x.organization_id = i.organization_id AND x.user_id = i.user_id AND x.position >= 0
                        ORDER BY x.position LIMIT \(examined)
                    ) f)
        """
    }
}
