import Foundation
import Postgres
import StoreSupport
import TestSupport
import Testing

@testable import SyncStore

/// Checks without a cluster that statements meet its requirements. A statement runs on one server if parameters
/// identify the organizations of each table.
@Suite struct CitusSQLRewriterTests {
    @Test func `every statement restricts each table to organizations`() throws {
        let tables = try Self.tables()
        #expect(tables.count > 25 && tables.contains("mutations") && !tables.contains("gateways"))
        var unnamed: [String] = []
        for statement in SchemaTests.statements {
            let loose = Self.looseTables(Cluster.text(of: statement), of: tables)
            if CitusSQLRewriter.ofAllServers[statement.name] == nil, !loose.isEmpty {
                unnamed.append("\(statement.name): \(loose.joined(separator: ", "))")
            }
            if loose.isEmpty {
                #expect(CitusSQLRewriter.ofAllServers[statement.name] == nil, "\(statement.name) runs on one server")
            }
        }
        #expect(unnamed == [])
    }

    /// A statement inserts rows that it selects from organizations or from a table, or that are its values.
    @Test func `every inserted row belongs to an organization of the statement`() throws {
        let tables = try Self.tables()
        for statement in SchemaTests.statements {
            let text = Cluster.text(of: statement)
            guard let insert = text.firstMatch(of: /^INSERT INTO (\w+)/), tables.contains(String(insert.output.1))
            else { continue }
            if let one = CitusSQLRewriter(statement).ofOneRow {
                #expect(one.contains(/\nVALUES \(\(?\$\d+::uuid/), "\(statement.name): \(one)")
            }
            let inputs = Set(text.matches(of: /unnest\([^()]*\)(?:\s+WITH ORDINALITY|) AS (\w+)/).map { $0.output.1 })
            let isKnown =
                text.contains(/\nSELECT (\w+)\.(organization_id|id),/)
                && text.firstMatch(of: /\nSELECT (\w+)\./).map { !inputs.contains($0.output.1) } == true
            #expect(isKnown || text.contains(/\sVALUES \(\$1[,:]/), "\(statement.name): \(text)")
        }
    }

    /// Each of these features was once in a statement. A cluster rejects such a statement, routes it differently, or
    /// crashes on it.
    @Test func `no statement uses a feature that a cluster does not support`() {
        for statement in SchemaTests.statements {
            let text = Cluster.text(of: statement)
            #expect(!text.contains(/ctid|xmax|MERGE |pg_advisory|force_generic_plan/), "\(statement.name)")
            #expect(
                !text.contains(/(SET|,)\s+\w+ = \w+\.\w+\[/),
                "\(statement.name) sets a column to an array's element"
            )
            if let returning = text.firstRange(of: "RETURNING") {
                #expect(!text[returning.lowerBound...].contains("now()"), "\(statement.name)")
            }
        }
    }

    /// The cluster's texts are SQL for the same tables, with the same parameters.
    @Test(.onOneServer("creates functions of a cluster"))
    func `prepares every text for a cluster on the migrated schema`() async throws {
        let database = try await Gateway.migratedDatabase()
        let connection = try await database.connect()
        defer { connection.close() }
        // a function of the extension; this test fails for a text that calls another function
        try await connection.execute(
            script: """
                CREATE FUNCTION distinct_organizations(uuid[]) RETURNS uuid[] LANGUAGE sql AS 'SELECT $1';
                CREATE FUNCTION get_shard_id_for_distribution_column(text, uuid) RETURNS bigint
                    LANGUAGE sql AS 'SELECT 1';
                CREATE FUNCTION is_erased(uuid, uuid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
                CREATE TABLE citus_stat_activity (
                    datname name, application_name text, is_worker_query bool, global_pid bigint);
                CREATE FUNCTION citus_backend_gpid() RETURNS bigint LANGUAGE sql AS 'SELECT 1';
                CREATE TABLE pg_dist_node (groupid int, nodename text, nodeport int, isactive bool, noderole text);
                CREATE TABLE pg_dist_shard (logicalrelid regclass, shardid bigint);
                CREATE TABLE pg_dist_placement (shardid bigint, groupid int);
                CREATE FUNCTION shard_name(regclass, bigint) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
                CREATE FUNCTION master_run_on_worker(text[], int[], text[], bool, OUT success bool, OUT result text)
                    RETURNS SETOF record LANGUAGE sql AS 'SELECT true, NULL::text'
                """
        )
        for statement in SchemaTests.statements {
            for (name, text) in Self.texts(of: statement) where text != statement.sql {
                try await connection.execute(script: "PREPARE \(name) AS \(text)")
                // the statement of one row needs no order, so it can omit the parameter for the order
                let (taken, given) = (Self.parameters(text), Self.parameters(statement.sql))
                #expect(name == statement.name ? taken == given : taken.isSubset(of: given), "\(name)")
            }
        }
    }

    @Test func `a text is bound to organizations where it reads rows and where it names an organization`() {
        let many = """
            SELECT d.at
            FROM unnest($1::int4[], $2::uuid[]) AS k (push, organization_id)
            CROSS JOIN LATERAL (SELECT * FROM devices x WHERE x.organization_id = k.organization_id OFFSET 0) d
            """
        let anchored =
            "x.organization_id = k.organization_id AND x.organization_id = ANY (distinct_organizations($2::uuid[]))"
        #expect(CitusSQLRewriter(many).ofRows.contains(anchored))
        let one =
            "DELETE FROM lanes AS l USING (SELECT * FROM lanes x WHERE x.organization_id = $1) k "
            + "WHERE l.organization_id = k.organization_id"
        #expect(
            CitusSQLRewriter(one).ofRows.hasSuffix("l.organization_id = k.organization_id AND l.organization_id = $1")
        )
        let insert = """
            INSERT INTO users AS u (organization_id, user_id)
            SELECT k.*, $3 FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
            ON CONFLICT DO NOTHING
            """
        #expect(
            CitusSQLRewriter(insert).ofRows == """
                INSERT INTO users AS u (organization_id, user_id)
                SELECT oz.id, k.user_id, $3
                FROM organizations oz JOIN unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id) \
                ON oz.id = k.organization_id
                WHERE oz.id = ANY (distinct_organizations($1::uuid[]))
                ON CONFLICT DO NOTHING
                """
        )
        let row = """
            INSERT INTO users AS u (organization_id, user_id)
            SELECT $1::uuid, $2::uuid
            WHERE true
            """
        let joined = "SELECT oz.id, $2::uuid\nFROM organizations oz\nWHERE oz.id = $1 AND true"
        #expect(CitusSQLRewriter(row).ofRows.hasSuffix(joined))
        #expect(CitusSQLRewriter("SELECT count(*) FROM lanes l").ofRows == "SELECT count(*) FROM lanes l")
    }

    @Test func `one row is passed as values, unless the text needs another form`() {
        let insert = """
            INSERT INTO users AS u (organization_id, user_id, at, place)
            SELECT k.*, $3, CASE WHEN k.user_id IS NULL THEN k.organization_id END
            FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
            ORDER BY k.organization_id, k.user_id
            ON CONFLICT (organization_id, user_id) DO UPDATE
            SET at = u.at + excluded.at
            """
        #expect(
            CitusSQLRewriter(insert).ofOneRow == """
                INSERT INTO users AS u (organization_id, user_id, at, place)
                VALUES (($1::uuid[])[1], ($2::uuid[])[1], $3, CASE WHEN ($2::uuid[])[1] IS NULL THEN ($1::uuid[])[1] END)
                ON CONFLICT (organization_id, user_id) DO UPDATE
                SET at = u.at + excluded.at
                """
        )
        for other in [
            insert.replacing("$3", with: "(SELECT f.at FROM feeds f)"),
            insert.replacing("\nORDER", with: "\nWHERE true\nORDER"),
            insert.replacing("\nORDER", with: "\nCROSS JOIN feeds f\nORDER"), "SELECT 1",
            "INSERT INTO users VALUES ($1)",
        ] {
            #expect(CitusSQLRewriter(other).ofOneRow == nil, "\(other)")
        }
        // the statements that every group commit executes
        let single = [
            GroupStatements.writeDevices, GroupStatements.writeCommonMutations, GroupStatements.writeMappings,
        ]
        for statement in single + [LaneRows.write, EntityStatements.raiseFeeds] {
            #expect(CitusSQLRewriter(statement).ofOneRow != nil, "\(statement.name)")
        }
    }

    // MARK: - Look-ups

    /// The texts of a statement, with the names under which they are prepared.
    static func texts(of statement: Statement) -> [(name: String, text: String)] {
        let one = CitusSQLRewriter(statement).ofOneRow.map { [(name: statement.name + "_of_one", text: $0)] } ?? []
        return [(name: statement.name, text: Cluster.text(of: statement))] + one
    }

    /// The distributed tables: those with rows of organizations, except for tables that are looked up by another key.
    private static func tables() throws -> Set<String> {
        let text = Schema.migrations.map(\.sql).joined(separator: "\n").replacing(/\ *--[^\n]*\n/, with: "")
        let found = text.matches(of: /CREATE TABLE (\w+) \(\n([^;]*);/).filter { match in
            match.output.1 == "organizations" || match.output.2.contains("organization_id")
        }
        return Set(found.map { String($0.output.1) }).subtracting(["external_ids", "readers"])
    }

    /// References to tables whose organizations no parameter identifies.
    private static func looseTables(_ text: String, of tables: Set<String>) -> [String] {
        let text = text.replacing(/--[^\n]*/, with: "")
        let clauses: Set<Substring> = [
            "WHERE", "SET", "FOR", "ORDER", "LIMIT", "ON", "USING", "SELECT", "CROSS", "LEFT", "GROUP", "OFFSET",
            "UNION", "RETURNING",
        ]
        var references: [Substring: Int] = [:]
        for match in text.matches(of: /(?:FROM|JOIN|UPDATE|USING)\s+(\w+)(?:\s+AS)?(?:\s+(\w+))?/) {
            guard tables.contains(String(match.output.1)) else { continue }
            let alias = match.output.2.flatMap { clauses.contains($0) ? nil : $0 }
            references[alias ?? match.output.1, default: 0] += 1
        }
        var anchors: [Substring: Int] = [:]
        for match in text.matches(of: /(?:(\w+)\.)?(organization_id|id) (?:= \$\d|= ANY)/) {
            let isOwn = match.output.2 == "organization_id"
            if let table = match.output.1 {
                let isTheirs = ["organizations \(table)", "organizations AS \(table)"].contains { text.contains($0) }
                if isOwn || isTheirs { anchors[table, default: 0] += 1 }
            } else {
                // a statement on one table does not name it
                for table in isOwn ? tables : ["organizations"] { anchors[Substring(table), default: 0] += 1 }
            }
        }
        return references.filter { $0.value > anchors[$0.key] ?? 0 }.map { String($0.key) }.sorted()
    }

    private static func parameters(_ text: String) -> Set<Substring> { Set(text.matches(of: /\$\d+/).map(\.output)) }
}
