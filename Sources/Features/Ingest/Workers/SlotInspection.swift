import Postgres
import SyncModel
import SyncStore

/// Checks whether a database's log, slot, publication and tables fit the settings, before the database is followed.
///
/// The checks use a separate session.
struct SlotInspection {
    let connection: Connection
    let settings: ReplicationSettings

    private var advice: ReplicationAdvice { ReplicationAdvice(settings: settings) }

    struct Server {
        let system: String
        /// The oid of the database to which the connection belongs.
        let database: Int64
        let timeline: Int64
        let end: LogPosition
    }

    /// A publication, and the kinds of changes that it contains.
    struct Publication {
        /// The kinds of changes that the publication omits, by PostgreSQL's names.
        let lacking: [String]
        /// Whether the publication contains changes of partitions as changes of the partitioned table.
        let isViaRoot: Bool
        /// The publication's scope without its tables.
        let scope: PublicationScope
    }

    /// The error that changes are missing in the log, because the publication was changed while the source followed it.
    struct Loss: Error {
        let reason: String
        /// The defect that must be corrected first, and how to correct it.
        var failure: SourceFailure?
    }

    /// The results of one check of the publication and the tables.
    struct Finding {
        let publication: Publication
        let scope: PublicationScope
        /// Descriptions of changes that affected rows since the last check, but are not in the log.
        let rewrites: [String]
        /// A defect of the columns; nil if there is no defect.
        let failure: SourceFailure?
    }

    struct Slot {
        let plugin: String?
        let isHere: Bool
        /// Whether the server sends a prepared transaction before its commit. Sluice does not read such a slot.
        let isTwoPhase: Bool
        let walStatus: String
        let confirmed: LogPosition?
        let report: SlotReport
    }

    /// A present defect of the tables. Older parts of the log may be from a time before this defect.
    struct Defect {
        let failure: SourceFailure
        /// The end of the log when the defect was found.
        let end: LogPosition
    }

    /// Checks everything. Creates the slot if the slot is missing and the settings permit its creation.
    ///
    /// - Parameters:
    ///   - state: the progress of an earlier worker; nil at the first check.
    ///   - seen: called with the slot's state, even if the check finds a defect.
    /// - Returns: the results, including a defect of the tables. At the first check, such a defect is thrown instead.
    /// - Throws: the defect, with a description.
    func prepare(
        _ state: ReplicationState?,
        now: TimeSource,
        seen: (SlotReport) -> Void
    ) async throws -> (Server, Slot, Finding, Defect?) {
        try await disableJIT()
        var slot = try await slot(now: now)
        // the slot's state is reported despite other defects, because the server retains its log for the slot
        if let slot { seen(slot.report) }
        let server = try await server()
        // the database is compared before the publication, because another database has another publication
        if let failure = state.flatMap({ advice.failure(of: $0, from: server) }) { throw failure }
        let known = state?.gap == nil ? state?.scope : nil
        let finding = try await check(since: known, isRunning: false)
        var lack: Defect?
        if let failure = finding.failure {
            guard state != nil else { throw failure }
            lack = Defect(failure: failure, end: try await self.server().end)
        }
        if slot == nil {
            // a new slot would begin after the stored position, and changes would be missing
            if let state { throw advice.missingSlot(after: state) }
            guard settings.createsSlot else {
                throw SourceFailure(
                    "There is no slot '\(settings.slot)'. "
                        + "In the source's database run: SELECT pg_create_logical_replication_slot("
                        + "'\(settings.slot)', 'pgoutput'), or set create_slot: true."
                )
            }
            _ = try await connection.run(Query(Self.createStatement, Parameters(settings.slot)))
            slot = try await self.slot(now: now)
        }
        guard let slot else { throw SourceFailure("Slot '\(settings.slot)' disappeared.", isFatal: false) }
        try Self.check(slot, settings)
        return (server, slot, finding, lack)
    }

    /// Checks the server, the publication, the tables and the slot, and changes nothing.
    ///
    /// - Returns: a defect that an operator should correct although the source works; nil if there is no such defect.
    func examine(now: TimeSource) async throws -> String? {
        try await disableJIT()
        _ = try await server()
        let finding = try await check(since: nil, isRunning: false)
        if let failure = finding.failure { throw failure }
        if let slot = try await slot(now: now) {
            try Self.check(slot, settings)
        } else if !settings.createsSlot {
            throw SourceFailure("Slot '\(settings.slot)' does not exist. \(ReplicationAdvice.creation)")
        }
        return warning(of: finding.publication)
    }

    /// Checks the publication and the tables.
    ///
    /// - Parameters:
    ///   - known: the scope at the last check; nil at the first check, and if changes are already known to be missing.
    ///   - isRunning: whether the log is being read. If so, a table may have another name than in the settings.
    /// - Throws: `Loss` if the log may lack changes since the last check; for any other obstacle, the defect that must
    ///   be corrected first.
    func check(since known: PublicationScope?, isRunning: Bool) async throws -> Finding {
        let publication: Publication
        do {
            publication = try await checkPublication()
        } catch let failure as SourceFailure where known?.name.hasSameBytes(as: settings.publication) == true {
            throw Loss(reason: "it was dropped, or did not publish insert, update and delete", failure: failure)
        }
        let scope = try await scope(of: publication, known)
        if let known, let reason = scope.loss(since: known) {
            // the first reading can mix two states of the catalog, because functions of the server can read newer
            // changes than the statement that calls them; the scope is read again to report the right reason
            throw Loss(reason: try await self.scope(of: publication, known).loss(since: known) ?? reason)
        }
        if let name = scope.unlogged {
            let failure = SourceFailure(
                "Table \(name) is unlogged or a foreign table, so its changes are not in the log. If it is unlogged, "
                    + "run in the source's database: ALTER TABLE \(name) SET LOGGED"
            )
            throw known.map { _ in Loss(reason: "table \(name) became unlogged", failure: failure) } ?? failure
                as any Error
        }
        let rewrites = known.map { scope.rewrites(since: $0) } ?? []
        let failure: SourceFailure?
        do {
            failure = try await checkTables(publication, isRunning: isRunning)
        } catch let thrown as SourceFailure {
            // the tables may have changed after the scope was read; if the log lacks changes for this reason, this loss
            // is reported together with the failure
            guard let known, let reason = try await self.scope(of: publication, known).loss(since: known) else {
                throw thrown
            }
            throw Loss(reason: reason, failure: thrown)
        }
        return Finding(publication: publication, scope: scope, rewrites: rewrites, failure: failure)
    }

    static func check(_ slot: Slot, _ settings: ReplicationSettings) throws(SourceFailure) {
        guard slot.plugin == "pgoutput" else {
            throw SourceFailure(
                "Slot '\(settings.slot)' is not a logical slot of pgoutput. Use a slot created by "
                    + "pg_create_logical_replication_slot(…, 'pgoutput')."
            )
        }
        guard slot.isHere else {
            throw SourceFailure("Slot '\(settings.slot)' does not belong to the database of the URI.")
        }
        guard !slot.isTwoPhase else {
            throw SourceFailure(
                "Slot '\(settings.slot)' was created with two_phase, so the server sends prepared transactions before "
                    + "their commit, which Sluice does not read. In the source's database run: "
                    + "SELECT pg_drop_replication_slot('\(settings.slot)'); "
                    + "SELECT pg_create_logical_replication_slot('\(settings.slot)', 'pgoutput'). Then import the "
                    + "tables. If the source has run before, then also run the source with \"from\": null "
                    + "(sluice sources run --from-beginning)."
            )
        }
        guard slot.walStatus == "lost" else { return }
        throw SourceFailure(
            "Slot '\(settings.slot)' was invalidated: the server removed log that had not been read "
                + "(max_slot_wal_keep_size). Drop the slot, create it again, import the tables, then run the source "
                + "with \"from\": null (sluice sources run --from-beginning)."
        )
    }

    // MARK: - The server

    /// Disables just-in-time compilation. PostgreSQL overestimates the cost of catalog queries, and would compile them
    /// for seconds at each check.
    private func disableJIT() async throws { try await connection.execute(script: "SET jit = off") }

    private func server() async throws -> Server {
        let rows = try await connection.run(Query(Self.serverStatement))
        let level: String = try rows.read(0, 0)
        guard level == "logical" else {
            throw SourceFailure(
                "The server's wal_level is '\(level)'. "
                    + "In the source's database run: ALTER SYSTEM SET wal_level = logical. Then restart the server."
            )
        }
        return Server(
            system: try rows.read(0, 1),
            database: try rows.read(0, 4),
            timeline: try rows.read(0, 3),
            end: LogPosition(try rows.read(0, 2, as: String.self)) ?? .zero
        )
    }

    /// Returns the present end of the log.
    func logEnd() async throws -> LogPosition { try await server().end }

    /// Reads and checks the publication.
    ///
    /// - Throws: a defect of the publication that would cause changes to be missing in the log.
    func checkPublication() async throws -> Publication {
        let rows = try await connection.run(Query(Self.publicationStatement, Parameters(settings.publication)))
        let name = settings.publication.replacing("\"", with: "\"\"")
        if rows.count > 0 {
            var lacking: [String] = []
            for (column, kind) in ["insert", "update", "delete", "truncate"].enumerated() {
                if try rows.read(0, column, as: String.self) != "true" { lacking.append(kind) }
            }
            let lost = lacking.filter { $0 != "truncate" }
            guard lost.isEmpty else {
                throw SourceFailure(
                    "Publication '\(settings.publication)' does not publish \(lost.joined(separator: ", ")), "
                        + "so such changes would never arrive. "
                        + "In the source's database run: ALTER PUBLICATION \"\(name)\" SET (publish = "
                        + "'insert, update, delete, truncate'); earlier changes are not in the log, so "
                        + "import the tables."
                )
            }
            let scope = PublicationScope(
                name: settings.publication,
                oid: try rows.read(0, 5),
                revision: try rows.read(0, 6),
                row: try rows.read(0, 7),
                tables: []
            )
            return Publication(
                lacking: lacking,
                isViaRoot: try rows.read(0, 4, as: String.self) == "true",
                scope: scope
            )
        }
        let tables = settings.tables.map(\.name.sql).joined(separator: ", ")
        throw SourceFailure(
            "There is no publication '\(settings.publication)'. "
                + "In the source's database run: CREATE PUBLICATION \"\(name)\" FOR TABLE "
                + tables
        )
    }

    /// Returns defects of the settings and of a publication that an operator should correct although the source works;
    /// nil without a defect.
    func warning(of publication: Publication) -> String? {
        var warnings = settings.mergeWarning.map { [$0] } ?? []
        if publication.lacking.contains("truncate") {
            let name = settings.publication.replacing("\"", with: "\"\"")
            warnings.append(
                "Publication '\(settings.publication)' does not publish truncate, so state.last_truncation stays empty "
                    + "if a table is emptied. In the source's database run: ALTER PUBLICATION \"\(name)\" SET (publish = "
                    + "'insert, update, delete, truncate')"
            )
        }
        return warnings.isEmpty ? nil : warnings.joined(separator: ". ")
    }

    /// Returns the scope of the publication, with the tables that the settings name.
    ///
    /// If a table was renamed since the last check, it is found by its oid.
    private func scope(of publication: Publication, _ known: PublicationScope?) async throws -> PublicationScope {
        var scope = publication.scope
        let names = settings.tables.map(\.name)
        let before = (known?.tables ?? []).filter { names.contains($0.name) }
        let parameters = Parameters(
            settings.publication,
            names.map(\.schema),
            names.map(\.name),
            before.map(\.oid),
            before.flatMap(\.relations).map(\.oid)
        )
        let rows = try await connection.run(Query(Self.scopeStatement, parameters))
        let found = try rows.read { row in
            let oid: Int64 = try row.read("oid")
            let name = QualifiedName(schema: try row.read("schema"), name: try row.read("name"))
            let isPublished: Bool = try row.read("is_published")
            let members: [String] = try row.read("members")
            let filter: String = try row.read("filter")
            let columns = try row.read("columns", as: String?.self).map { text in
                text.split { !$0.isASCII || !$0.isNumber }.compactMap { Int64($0) }
            }
            var table = PublicationScope.Table(name: name, oid: oid, members: members, filter: filter, columns: columns)
            table.isPublished = isPublished
            table.relations = try row.read("relations", as: [String].self).compactMap { PublicationScope.Relation($0) }
            table.definitions = try row.read("definitions", as: [String].self).compactMap {
                PublicationScope.Definition($0)
            }
            return table
        }
        for name in names {
            let oid = before.first { $0.name == name }?.oid
            if var table = found.first(where: { $0.name == name }) ?? found.first(where: { $0.oid == oid }) {
                table.name = name
                scope.tables.append(table)
            } else if oid != nil {
                scope.tables.append(PublicationScope.Table(dropped: name))
            }
        }
        return scope
    }

    /// Checks the tables.
    ///
    /// - Returns: a defect of the columns; nil if there is no defect.
    private func checkTables(_ publication: Publication, isRunning: Bool) async throws -> SourceFailure? {
        let names = settings.tables.map(\.name)
        let rows = try await connection.run(
            Query(Self.tablesStatement, Parameters(names.map(\.schema), names.map(\.name), settings.publication))
        )
        let found = try rows.read(TableFinding.init)
        return try lack(of: isRunning ? found.filter(\.exists) : found, publication)
    }

    private func lack(of found: [TableFinding], _ publication: Publication) throws -> SourceFailure? {
        var failure: SourceFailure?
        for table in settings.tables {
            guard let finding = found.first(where: { $0.name == table.name }) else { continue }
            try finding.check(table, publication: settings.publication, isViaRoot: publication.isViaRoot)
            do throws(SourceFailure) { try finding.checkColumns(table) } catch { failure = failure ?? error }
        }
        return failure
    }

    // MARK: - The slot

    /// Returns the slot; nil if there is no such slot.
    func slot(now: TimeSource) async throws -> Slot? {
        let rows = try await connection.run(Query(Self.slotStatement, Parameters(settings.slot)))
        return try rows.read { row in
            let plugin: String? = try row.read("plugin")
            let isHere: Bool = try row.read("is_here")
            let isTwoPhase: Bool = try row.read("is_two_phase")
            // the status is null once the slot is lost
            let status: String = try row.read("wal_status") ?? "lost"
            let walStatus = SlotReport.walStatuses.contains(status) ? status : "reserved"
            let confirmed = try row.read("confirmed", as: String?.self).flatMap { LogPosition($0) }
            let lag: Int64? = try row.read("lag")
            let retained: Int64? = try row.read("retained")
            let safe: Int64? = try row.read("safe")
            return Slot(
                plugin: plugin,
                isHere: isHere,
                isTwoPhase: isTwoPhase,
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

    /// Returns, for each of the given user-defined types, the built-in type as which its values are read.
    ///
    /// For a domain of a built-in type, the result is the domain's base type. For all other types, it is 25 (`text`),
    /// or 1009 (`text[]`) for an array.
    func builtIn(_ types: [UInt32]) async throws -> [UInt32: UInt32] {
        let rows = try await connection.run(Query(Self.typesStatement, Parameters(types.map(Int64.init))))
        var found: [UInt32: UInt32] = [:]
        for var row in rows {
            let (root, base) = (try row.read("root", as: Int64.self), try row.read("base", as: Int64.self))
            let isArray: Bool = try row.read("is_array")
            found[UInt32(truncatingIfNeeded: root)] =
                base < 16_384 ? UInt32(truncatingIfNeeded: base) : isArray ? 1_009 : 25
        }
        return found
    }

    // MARK: - Statements

    /// SQL for the end of the log. A standby writes no log itself, so the end is the position that it has replayed.
    private static let end =
        "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"

    private static let serverStatement = Statement(
        "replication_server",
        """
        SELECT current_setting('wal_level'), (SELECT c.system_identifier::text FROM pg_control_system() c),
            (\(end))::text,
            CASE WHEN pg_is_in_recovery() THEN (SELECT k.timeline_id::int8 FROM pg_control_checkpoint() k)
                ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8 END,
            (SELECT d.oid::int8 FROM pg_database d WHERE d.datname = current_database())
        """
    )

    private static let publicationStatement = Statement(
        "replication_publication",
        """
        SELECT p.pubinsert::text, p.pubupdate::text, p.pubdelete::text, p.pubtruncate::text, p.pubviaroot::text,
            p.oid::int8, p.xmin::text, hashtextextended(to_jsonb(p)::text, 0)::text
        FROM pg_publication p WHERE p.pubname = $1::text
        """
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
                SELECT a.attname::text FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped
                    AND current_setting('server_version_num')::int4 < 180000
            ) AS generated,
            ARRAY(
                SELECT a.attname::text
                FROM pg_index i
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                WHERE i.indrelid = c.oid
                    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
            ) AS keys,
            ARRAY(
                SELECT i.indexrelid::text || CASE WHEN i.indimmediate THEN ':t:' ELSE ':f:' END || a.attname::text
                FROM pg_index i
                JOIN pg_attribute a ON a.attrelid = i.indrelid
                    AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                    AND i.indexprs IS NULL
                ORDER BY i.indexrelid
            ) AS uniques,
            coalesce((
                SELECT to_jsonb(p) -> 'attnames' IS NOT NULL FROM pg_publication_tables p
                WHERE p.pubname = $3::text AND p.schemaname = k.schema AND p.tablename = k.name
            ), false) AS lists_columns,
            ARRAY(
                SELECT jsonb_array_elements_text(to_jsonb(p) -> 'attnames') FROM pg_publication_tables p
                WHERE p.pubname = $3::text AND p.schemaname = k.schema AND p.tablename = k.name
            ) AS published,
            coalesce(c.relkind = 'p', false) AS is_partitioned, coalesce(c.relispartition, false) AS is_partition,
            ARRAY(
                WITH RECURSIVE down AS (
                    SELECT i.inhrelid AS oid FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind = 'r'
                    UNION
                    SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid
                )
                SELECT format('%I.%I', n.nspname, r.relname)
                FROM down
                JOIN pg_class r ON r.oid = down.oid
                JOIN pg_namespace n ON n.oid = r.relnamespace
                WHERE (n.nspname::text, r.relname::text) NOT IN (
                    SELECT x.schema, x.name FROM unnest($1::text[], $2::text[]) AS x (schema, name)
                )
                ORDER BY 1
                LIMIT 4
            ) AS children
        FROM unnest($1::text[], $2::text[]) AS k (schema, name)
        LEFT JOIN (
            SELECT r.oid, r.relname, r.relreplident, r.relkind, r.relispartition, n.nspname
            FROM pg_class r
            JOIN pg_namespace n ON n.oid = r.relnamespace
            WHERE r.relkind IN ('r', 'p')
        ) c ON c.nspname = k.schema AND c.relname = k.name
        """
    )

    /// Selects the catalog rows through which a publication contains the tables, and the catalog rows that describe
    /// these tables.
    ///
    /// The transaction ids of catalog rows (`xmin`) show changes that were made and undone between two checks. If a
    /// table leaves its schema and returns, PostgreSQL writes a new row for the table's dependency on the schema. If a
    /// partition is detached and attached again, PostgreSQL writes a new row of `pg_inherits` for the partition.
    ///
    /// The statement locks no table while it waits for another table's lock. It reads partitions from `pg_inherits`,
    /// because `pg_partition_tree` would keep locks on them. With these locks, the statement and an ALTER TABLE of the
    /// followed table could end in a deadlock, and PostgreSQL could cancel the ALTER TABLE. The size is read only for
    /// relations that the last check did not find.
    ///
    /// Before PostgreSQL 15, publications have no schemas, conditions or column lists. The statement reads schemas
    /// through dependencies, and conditions and lists as JSON, because this works in all versions.
    private static let scopeStatement = Statement(
        "replication_scope",
        """
        SELECT c.oid::int8 AS oid, n.nspname::text AS schema, c.relname::text AS name,
            EXISTS (
                SELECT FROM pg_publication_tables t
                WHERE t.pubname = p.pubname AND t.schemaname = n.nspname AND t.tablename = c.relname
            ) AS is_published,
            m.members, m.filter, m.columns,
            ARRAY(
                SELECT concat_ws(
                    ':', l.oid, CASE WHEN l.oid = c.oid THEN '' ELSE i.xmin::text END, l.relfilenode, l.reltoastrelid,
                    CASE WHEN l.relpersistence = 'p' AND l.relkind <> 'f' THEN 'l' ELSE '-' END
                        || CASE WHEN EXISTS (
                            SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = l.oid
                        ) THEN 'p' ELSE '' END
                        || CASE
                            WHEN c.oid::int8 <> ALL ($4::int8[]) OR l.oid::int8 = ANY ($5::int8[]) THEN 'e'
                            WHEN l.relkind <> 'f' AND pg_relation_size(l.oid) > 0 THEN ''
                            ELSE 'e'
                        END,
                    format('%I.%I', ln.nspname, l.relname)
                )
                FROM unnest(t.oids) AS k (oid)
                JOIN pg_class l ON l.oid = k.oid
                JOIN pg_namespace ln ON ln.oid = l.relnamespace
                LEFT JOIN pg_inherits i ON i.inhrelid = l.oid AND l.relispartition
                ORDER BY l.oid
            ) AS relations,
            ARRAY(
                SELECT concat_ws(':', a.attnum, a.xmin, CASE WHEN f.attname IS NOT NULL THEN 'f' END)
                FROM pg_attribute a
                LEFT JOIN (
                    SELECT DISTINCT l.attname
                    FROM unnest(t.oids) AS k (oid)
                    JOIN pg_attribute l ON l.attrelid = k.oid AND l.attnum > 0
                    WHERE l.atthasmissing
                ) f ON f.attname = a.attname
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                ORDER BY a.attnum
            ) AS definitions
        FROM pg_publication p
        CROSS JOIN pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL (
            WITH RECURSIVE down AS (
                SELECT c.oid AS oid, c.relkind AS relkind
                UNION
                SELECT r.oid, r.relkind
                FROM down
                JOIN pg_inherits i ON i.inhparent = down.oid
                JOIN pg_class r ON r.oid = i.inhrelid
                WHERE down.relkind = 'p' AND (to_jsonb(i) ->> 'inhdetachpending') IS DISTINCT FROM 'true'
            )
            SELECT array_agg(down.oid) AS oids
            FROM down
        ) t
        CROSS JOIN LATERAL (
            WITH up AS (
                SELECT a.relid, string_agg(i.xmin::text, ' ') OVER (
                    ORDER BY a.level ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS path
                FROM pg_partition_ancestors(c.oid) WITH ORDINALITY a (relid, level)
                LEFT JOIN pg_inherits i ON i.inhrelid = a.relid
                UNION ALL
                SELECT c.oid, NULL
                WHERE NOT c.relispartition AND c.relkind = 'r'
            )
            SELECT coalesce(array_agg(x.member ORDER BY x.member), '{}') AS members,
                coalesce(hashtextextended(string_agg(x.filter, ' ' ORDER BY x.member), 0)::text, '') AS filter,
                CASE WHEN bool_and(x.columns IS NOT NULL) THEN string_agg(x.columns, ' ' ORDER BY x.member) END AS columns
            FROM (
                SELECT concat_ws(' ', 'table', r.oid, up.path) AS member,
                    regexp_replace(to_jsonb(r) ->> 'prqual', ':(stmt_)?(location|len) -?[0-9]+', '', 'g') AS filter,
                    to_jsonb(r) ->> 'prattrs' AS columns
                FROM pg_publication_rel r
                JOIN up ON up.relid = r.prrelid
                WHERE r.prpubid = p.oid
                UNION ALL
                SELECT concat_ws(' ', 'schema', d.objid, n.xmin, up.path), NULL, NULL
                FROM pg_depend d
                JOIN pg_depend s ON s.classid = d.classid AND s.objid = d.objid
                    AND s.refclassid = 'pg_namespace'::regclass
                JOIN pg_depend n ON n.classid = 'pg_class'::regclass AND n.objsubid = 0
                    AND n.refclassid = s.refclassid AND n.refobjid = s.refobjid
                JOIN up ON up.relid = n.objid
                WHERE d.refclassid = 'pg_publication'::regclass AND d.refobjid = p.oid
                    AND d.classid = to_regclass('pg_catalog.pg_publication_namespace')
                UNION ALL
                SELECT 'all', NULL, NULL
                WHERE p.puballtables
            ) x
        ) m
        WHERE p.pubname = $1::text AND c.relkind IN ('r', 'p')
            AND (
                c.oid::int8 = ANY ($4::int8[])
                OR (n.nspname::text, c.relname::text) IN (
                    SELECT k.schema, k.name FROM unnest($2::text[], $3::text[]) AS k (schema, name)
                )
            )
        """
    )

    /// Selects the slot. The column `two_phase` is read as JSON, because servers before PostgreSQL 14 do not have it.
    private static let slotStatement = Statement(
        "replication_slot",
        """
        SELECT s.plugin::text AS plugin, coalesce(s.database = current_database(), false) AS is_here,
            coalesce((to_jsonb(s) ->> 'two_phase')::bool, false) AS is_two_phase,
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

/// A table, as PostgreSQL's catalog describes it.
private struct TableFinding {
    let name: QualifiedName
    let exists: Bool
    let isPublished: Bool
    /// The replica identity: `d` for the primary key, `i` for an index, `f` for all columns, `n` for no columns.
    let identity: String?
    let columns: [String]
    /// The generated columns, if the server cannot publish them. Servers before PostgreSQL 18 publish no generated
    /// columns.
    let generated: [String]
    let keys: [String]
    /// The unique indexes that have neither a condition nor an expression.
    let uniques: [Unique]
    /// The columns that the publication contains; nil if the server does not list them. Servers before PostgreSQL 15 do
    /// not.
    let published: [String]?
    let isPartitioned: Bool
    let isPartition: Bool
    /// Up to four tables that inherit from the table and are not in the settings, quoted for SQL. Partitions are not
    /// included.
    let children: [String]

    init(_ row: inout RowReader) throws {
        name = QualifiedName(schema: try row.read("schema"), name: try row.read("name"))
        exists = try row.read("exists")
        isPublished = try row.read("is_published")
        identity = try row.read("identity")
        columns = try row.read("columns")
        generated = try row.read("generated")
        keys = try row.read("keys")
        uniques = Unique.list(try row.read("uniques"))
        let isListed: Bool = try row.read("lists_columns")
        let listed: [String] = try row.read("published")
        published = isListed ? listed : nil
        isPartitioned = try row.read("is_partitioned")
        isPartition = try row.read("is_partition")
        children = try row.read("children")
    }

    struct Unique {
        var columns: [String]
        /// Whether PostgreSQL checks the index at each row. If not, PostgreSQL checks the index at the end of a
        /// statement or a transaction.
        let isImmediate: Bool

        /// Reads texts of the form `index:t:column`, one for each column of each index. If an index is not immediate,
        /// its texts contain `f` instead of `t`.
        static func list(_ texts: [String]) -> [Unique] {
            var found: [Substring: Unique] = [:]
            for text in texts {
                let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
                guard parts.count == 3 else { continue }
                found[parts[0], default: Unique(columns: [], isImmediate: parts[1] == "t")].columns.append(
                    String(parts[2])
                )
            }
            return Array(found.values)
        }
    }

    func check(_ table: FollowedTable, publication: String, isViaRoot: Bool) throws(SourceFailure) {
        guard exists else { throw SourceFailure("Table \(table.name) does not exist.") }
        guard isPublished else {
            let quoted = publication.replacing("\"", with: "\"\"")
            if isPartitioned, !isViaRoot {
                throw SourceFailure(
                    "Table \(table.name) is partitioned, and publication '\(publication)' publishes changes with the "
                        + "names of partitions, if at all. "
                        + "In the source's database run: ALTER PUBLICATION \"\(quoted)\" ADD TABLE "
                        + "\(table.name.sql), and ALTER PUBLICATION \"\(quoted)\" SET (publish_via_partition_root = "
                        + "true)"
                )
            }
            if isPartition, isViaRoot {
                throw SourceFailure(
                    "Table \(table.name) is a partition, and publication '\(publication)' publishes its changes "
                        + "with the partitioned table's name. Use that table in the settings instead, or run in the "
                        + "source's database: ALTER PUBLICATION \"\(quoted)\" SET (publish_via_partition_root = false)"
                )
            }
            throw SourceFailure(
                "Publication '\(publication)' does not contain table \(table.name). In the source's database run: "
                    + "ALTER PUBLICATION \"\(quoted)\" ADD TABLE \(table.name.sql)"
            )
        }
        try checkChildren(table)
    }

    /// Refuses a table whose rows are partly in tables that inherit from it. The log has changes of these rows under
    /// the names of the child tables, even if the publication names only the parent.
    private func checkChildren(_ table: FollowedTable) throws(SourceFailure) {
        guard !children.isEmpty else { return }
        let names = children.prefix(3).joined(separator: ", ") + (children.count > 3 ? " and others" : "")
        throw SourceFailure(
            "Table \(table.name) has child tables that the settings do not name: \(names). The log has changes of "
                + "their rows under the names of the child tables, so such changes would never arrive. Add the child "
                + "tables to the publication and to the settings (with distinct_ids: true for the same entity_type), "
                + "or use a partitioned table, or end the inheritance (ALTER TABLE … NO INHERIT …). Import the child "
                + "tables if their rows have changed."
        )
    }

    func checkColumns(_ table: FollowedTable) throws(SourceFailure) {
        let renamings = table.renamings(of: columns)
        let names = Set<ByteExactString>(columns.map { renamings[$0] ?? $0 })
        for (role, column) in table.namedColumns where !names.contains(column) {
            throw SourceFailure(
                "Table \(table.name) has no column '\(column)', which the settings name in '\(role)'. Correct the "
                    + "settings. If the column was renamed, add its old name to the table's 'renamed', for earlier "
                    + "parts of the log."
            )
        }
        let generated = Set<ByteExactString>(generated.map { renamings[$0] ?? $0 })
        for (role, column) in table.namedColumns where generated.contains(column) {
            throw SourceFailure(
                "Column '\(column)' of table \(table.name), which the settings name in '\(role)', is generated, and "
                    + "generated columns are not published. Remove it from the settings."
            )
        }
        if let published {
            let published = Set(published.map { renamings[$0] ?? $0 })
            for (role, column) in table.namedColumns where !published.contains(column) {
                throw SourceFailure(
                    "The publication omits column '\(column)' of table \(table.name), which the settings name in "
                        + "'\(role)'. Add it to the publication's column list (ALTER PUBLICATION … SET TABLE), or "
                        + "remove it from the settings."
                )
            }
        }
        let identifying = Set(keys.map { renamings[$0] ?? $0 })
        if let missing = table.ids.first(where: { !identifying.contains($0) }), identity != "f" {
            throw SourceFailure(
                "The log does not identify deleted rows of table \(table.name): '\(missing)' is not in its primary key "
                    + "or replica identity. In the source's database run: "
                    + "ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL"
            )
        }
        let ids = Set(table.ids)
        let fitting = uniques.filter { unique in
            !unique.columns.isEmpty && unique.columns.allSatisfy { ids.contains(renamings[$0] ?? $0) }
        }
        guard !fitting.isEmpty else {
            let columns = table.ids.map { "'\($0)'" }.joined(separator: ", ")
            throw SourceFailure(
                "Rows of table \(table.name) may have the same id: no unique constraint or index covers \(columns) "
                    + "without further columns or a condition, so different rows would become one entity. Use all "
                    + "columns of the primary key as id, as in \"id\": [\"tenant\", \"number\"], or make the column "
                    + "unique."
            )
        }
        guard identity == "f" || fitting.contains(where: \.isImmediate) else {
            throw SourceFailure(
                "The unique constraint on the id of table \(table.name) is deferrable, so ids may move between rows "
                    + "within a transaction. The log must contain the whole old row to identify the row of an id. "
                    + "In the source's database run: ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL"
            )
        }
        guard identity == "f" || table.causingKey == nil else {
            throw SourceFailure(
                "Table \(table.name) has a causing_key. The log must contain the whole old row to show which change wrote "
                    + "the key. In the source's database run: ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL"
            )
        }
    }
}
