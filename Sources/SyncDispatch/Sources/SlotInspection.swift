import Postgres
import SyncModel
import SyncStore

/// What a database says of itself before it is followed: whether its log, slot, publication and tables are as the settings
/// want them. Asked over a session of its own.
struct SlotInspection {
    let connection: Connection
    let settings: ReplicationSettings

    struct Server {
        let system: String
        let end: LogPosition
    }

    struct Slot {
        let plugin: String?
        let isHere: Bool
        let walStatus: String
        let confirmed: LogPosition?
        let report: SlotReport
    }

    /// What the tables have not, as the catalog has them now: the log may go back to when they had it.
    struct Lack {
        let trouble: SourceTrouble
        /// Where the log ended when that was so.
        let end: LogPosition
    }

    /// Looks at everything, and makes the slot where it is missing and may be made.
    ///
    /// - Parameters:
    ///   - state: how far an earlier worker came.
    ///   - seen: told how the slot is, good or bad.
    /// - Returns: what the tables lack, too, unless this is the first time: then that is thrown.
    /// - Throws: what is wrong, in words.
    func prepare(
        _ state: ReplicationState?,
        now: TimeSource,
        seen: (SlotReport) -> Void
    ) async throws -> (Server, Slot, Lack?) {
        var slot = try await slot(now: now)
        // whatever else is wrong: it keeps the server's log
        if let slot { seen(slot.report) }
        let server = try await server()
        try await checkPublication()
        var lack: Lack?
        if let trouble = try await checkTables() {
            guard state?.slot == settings.slot else { throw trouble }
            lack = Lack(trouble: trouble, end: try await self.server().end)
        }
        if slot == nil {
            if state?.slot == settings.slot {
                throw SourceTrouble(
                    "Slot '\(settings.slot)' is gone, and what was changed since is not told any more. Make it again (or "
                        + "have it made, with create_slot), import the tables, then run the source with from null."
                )
            }
            guard settings.createsSlot else {
                throw SourceTrouble(
                    "There is no slot '\(settings.slot)'. Run there: SELECT pg_create_logical_replication_slot("
                        + "'\(settings.slot)', 'pgoutput'), or put create_slot: true into the settings."
                )
            }
            _ = try await connection.run(Query(Self.createStatement, Parameters(settings.slot)))
            slot = try await self.slot(now: now)
        }
        guard let slot else { throw SourceTrouble("Slot '\(settings.slot)' went away.", isFatal: false) }
        guard slot.plugin == "pgoutput" else {
            throw SourceTrouble(
                "Slot '\(settings.slot)' is no logical slot of pgoutput. Name another, made by "
                    + "pg_create_logical_replication_slot(…, 'pgoutput')."
            )
        }
        guard slot.isHere else {
            throw SourceTrouble("Slot '\(settings.slot)' belongs to another database of the server than the URI names.")
        }
        try Self.checkAlive(slot, settings)
        return (server, slot, lack)
    }

    static func checkAlive(_ slot: Slot, _ settings: ReplicationSettings) throws(SourceTrouble) {
        guard slot.walStatus == "lost" else { return }
        throw SourceTrouble(
            "Slot '\(settings.slot)' was invalidated: the server has dropped log that was not read yet "
                + "(max_slot_wal_keep_size). Drop the slot, make it anew, import the tables, then run the source with "
                + "from null."
        )
    }

    // MARK: - The server

    private func server() async throws -> Server {
        let rows = try await connection.run(Query(Self.serverStatement))
        let level = try rows.string(0, 0)
        guard level == "logical" else {
            throw SourceTrouble(
                "The server's wal_level is '\(level)'. Run there: ALTER SYSTEM SET wal_level = logical, and restart it."
            )
        }
        return Server(system: try rows.string(0, 1), end: LogPosition(try rows.string(0, 2)) ?? .zero)
    }

    private func checkPublication() async throws {
        let rows = try await connection.run(Query(Self.publicationStatement, Parameters(settings.publication)))
        guard rows.count == 0 else { return }
        let name = settings.publication.replacing("\"", with: "\"\"")
        let tables = settings.tables.map(\.name.sql).joined(separator: ", ")
        throw SourceTrouble(
            "There is no publication '\(settings.publication)'. Run there: CREATE PUBLICATION \"\(name)\" FOR TABLE "
                + tables
        )
    }

    /// - Returns: what is wrong with the columns.
    private func checkTables() async throws -> SourceTrouble? {
        let names = settings.tables.map(\.name)
        let rows = try await connection.run(
            Query(Self.tablesStatement, Parameters(names.map(\.schema), names.map(\.name), settings.publication))
        )
        let found = try rows.read { row in
            TableFinding(
                name: QualifiedName(schema: try row.string("schema"), name: try row.string("name")),
                exists: try row.bool("exists"),
                isPublished: try row.bool("is_published"),
                identity: try row.optionalString("identity"),
                columns: try row.strings("columns"),
                keys: try row.strings("keys")
            )
        }
        var trouble: SourceTrouble?
        for table in settings.tables {
            guard let finding = found.first(where: { $0.name == table.name }) else { continue }
            try finding.check(table, publication: settings.publication)
            do throws(SourceTrouble) { try finding.checkColumns(table) } catch { trouble = trouble ?? error }
        }
        return trouble
    }

    // MARK: - The slot

    /// Nil where there is none.
    func slot(now: TimeSource) async throws -> Slot? {
        let rows = try await connection.run(Query(Self.slotStatement, Parameters(settings.slot)))
        return try rows.read { row in
            let plugin = try row.optionalString("plugin")
            let isHere = try row.bool("is_here")
            // null once it is lost
            let status = try row.optionalString("wal_status") ?? "lost"
            let walStatus = SlotReport.walStatuses.contains(status) ? status : "reserved"
            let confirmed = try row.optionalString("confirmed").flatMap { LogPosition($0) }
            let lag = try row.optionalInt64("lag")
            let retained = try row.optionalInt64("retained")
            let safe = try row.optionalInt64("safe")
            return Slot(
                plugin: plugin,
                isHere: isHere,
                walStatus: walStatus,
                confirmed: confirmed,
                report: SlotReport(
                    checkedAt: now(),
                    lagBytes: max(0, lag ?? 0),
                    retainedBytes: max(0, retained ?? 0),
                    walStatus: walStatus,
                    safeBytes: safe
                )
            )
        }.first
    }

    // MARK: - Types

    /// What stands for types of the database's own: what a domain is made of, 25 for all that is read as text, 1009 for
    /// arrays of it.
    func builtIn(_ types: [UInt32]) async throws -> [UInt32: UInt32] {
        let rows = try await connection.run(Query(Self.typesStatement, Parameters(types.map(Int64.init))))
        var found: [UInt32: UInt32] = [:]
        for var row in rows {
            let (root, base) = (try row.int64("root"), try row.int64("base"))
            let isArray = try row.bool("is_array")
            found[UInt32(truncatingIfNeeded: root)] =
                base < 16_384 ? UInt32(truncatingIfNeeded: base) : isArray ? 1_009 : 25
        }
        return found
    }

    // MARK: - Statements

    /// A server that follows another writes no log itself.
    private static let end =
        "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"

    private static let serverStatement = Statement(
        "replication_server",
        """
        SELECT current_setting('wal_level'), (SELECT c.system_identifier::text FROM pg_control_system() c),
            (\(end))::text
        """
    )

    private static let publicationStatement = Statement(
        "replication_publication",
        "SELECT 1 FROM pg_publication p WHERE p.pubname = $1::text"
    )

    private static let tablesStatement = Statement(
        "replication_tables",
        """
        SELECT k.schema, k.name, c.oid IS NOT NULL AS exists,
            EXISTS (
                SELECT FROM pg_publication_tables p
                WHERE p.pubname = $3::text AND p.schemaname = k.schema AND p.tablename = k.name
            ) AS is_published,
            c.relreplident::text AS identity,
            ARRAY(
                SELECT a.attname::text FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            ) AS columns,
            ARRAY(
                SELECT a.attname::text
                FROM pg_index i
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                WHERE i.indrelid = c.oid
                    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
            ) AS keys
        FROM unnest($1::text[], $2::text[]) AS k (schema, name)
        LEFT JOIN (
            SELECT r.oid, r.relname, r.relreplident, n.nspname
            FROM pg_class r
            JOIN pg_namespace n ON n.oid = r.relnamespace
            WHERE r.relkind IN ('r', 'p')
        ) c ON c.nspname = k.schema AND c.relname = k.name
        """
    )

    private static let slotStatement = Statement(
        "replication_slot",
        """
        SELECT s.plugin::text AS plugin, coalesce(s.database = current_database(), false) AS is_here,
            s.wal_status, s.confirmed_flush_lsn::text AS confirmed,
            pg_wal_lsn_diff(e.lsn, s.confirmed_flush_lsn)::int8 AS lag,
            pg_wal_lsn_diff(e.lsn, s.restart_lsn)::int8 AS retained,
            s.safe_wal_size AS safe
        FROM pg_replication_slots s
        CROSS JOIN (SELECT \(end) AS lsn) e
        WHERE s.slot_name = $1::text
        """
    )

    private static let createStatement = Statement(
        "replication_create_slot",
        "SELECT lsn::text FROM pg_create_logical_replication_slot($1::text, 'pgoutput')"
    )

    private static let typesStatement = Statement(
        "replication_types",
        """
        WITH RECURSIVE up AS (
            SELECT t.oid AS root, t.oid, t.typtype, t.typbasetype, t.typcategory
            FROM pg_type t
            WHERE t.oid::int8 = ANY ($1::int8[])
            UNION ALL
            SELECT up.root, t.oid, t.typtype, t.typbasetype, t.typcategory
            FROM up
            JOIN pg_type t ON t.oid = up.typbasetype
            WHERE up.typtype = 'd'
        )
        SELECT up.root::int8 AS root, up.oid::int8 AS base, up.typcategory = 'A' AS is_array
        FROM up
        WHERE up.typtype <> 'd'
        """
    )
}

/// A table as the catalog has it.
private struct TableFinding {
    let name: QualifiedName
    let exists: Bool
    let isPublished: Bool
    /// `d`: the primary key; `i`: an index; `f`: all columns; `n`: nothing.
    let identity: String?
    let columns: [String]
    let keys: [String]

    func check(_ table: FollowedTable, publication: String) throws(SourceTrouble) {
        guard exists else { throw SourceTrouble("There is no table \(table.name).") }
        guard isPublished else {
            let quoted = publication.replacing("\"", with: "\"\"")
            throw SourceTrouble(
                "Publication '\(publication)' does not have table \(table.name). Run there: "
                    + "ALTER PUBLICATION \"\(quoted)\" ADD TABLE \(table.name.sql)"
            )
        }
    }

    func checkColumns(_ table: FollowedTable) throws(SourceTrouble) {
        let renamings = table.renamings(of: columns)
        let names = Set<ExactText>(columns.map { renamings[$0] ?? $0 })
        for (role, column) in table.wanted where !names.contains(column) {
            throw SourceTrouble(
                "Table \(table.name) has no column '\(column)', which the settings name as \(role). Mend the settings; if "
                    + "it was renamed, the old name goes into the table's 'renamed', for what the log has from before."
            )
        }
        guard identity == "f" || keys.contains(where: { renamings[$0] ?? $0 == table.id }) else {
            throw SourceTrouble(
                "Table \(table.name) does not tell in the log which row was deleted: '\(table.id)' is not in its primary "
                    + "key or replica identity. Run there: ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL"
            )
        }
        guard identity == "f" || table.causingKey == nil else {
            throw SourceTrouble(
                "Table \(table.name) has a causing_key, and only with all of the old row the log tells whether a change "
                    + "wrote it or an earlier one did. Run there: ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL"
            )
        }
    }
}
