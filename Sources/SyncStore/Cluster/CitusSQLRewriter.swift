import FoundationEssentials
import Postgres
import Synchronization

/// Rewrites the text of a statement for a cluster that shards by organization (Citus).
///
/// On a cluster, a statement must restrict each table to organizations by parameters alone, so that Citus sends it to
/// the one server that has these organizations. Plain PostgreSQL does not need these conditions. With these conditions,
/// plain PostgreSQL would sort the list of organizations again for each look-up. Therefore only the text for plain
/// PostgreSQL is written by hand. These rules derive the cluster's text from it:
///
/// 1. If input rows come from `unnest` and a table is joined by `x.organization_id = k.organization_id`, the condition
///    `AND x.organization_id = ANY (distinct_organizations($1::uuid[]))` is added. The function lists each organization
///    once, because an index look-up goes through the whole list for each row. If the organization is one parameter,
///    the condition `AND x.organization_id = $1` is added for joined tables, too.
/// 2. Inserted rows come from a join of the input with `organizations`, so that Citus finds their server. The join
///    loses no row, because the organizations exist: the commit group has locked their rows or their lanes
///    (``GroupStatements/makeLanes``).
/// 3. Generic plans are not forced, because a generic plan, which is for all organizations, cannot name the
///    server of one organization.
/// 4. A single row is inserted by `VALUES` (``ofOneRow``). Because this statement needs no other table, the server that
///    receives it keeps its plan. That saves half of the cost that the other rules add.
///
/// If no rule applies, the cluster's text is written by hand next to the statement (`Statement.variant`). A test checks
/// the rewritten text of every statement against the cluster's requirements. The test needs no cluster.
struct CitusSQLRewriter {
    private let sql: String
    /// The condition on the column of an organization: `= $1` or `= ANY (…)`.
    ///
    /// Nil if the statement names no organization.
    private let anchor: String?

    init(_ statement: Statement) { self.init(statement.variant ?? statement.sql) }

    init(_ sql: String) {
        self.sql = sql
        anchor = Self.arrays(sql).map { "= ANY (\(Self.distinct)(\($0)))" } ?? Self.parameter(sql).map { "= \($0)" }
    }

    /// The function of `sql/citus.sql` that the cluster evaluates during planning.
    static let distinct = "distinct_organizations"

    /// The text for any number of rows.
    var ofRows: String {
        let text = sql.replacing("'force_generic_plan'", with: "'auto'")
        guard let anchor else { return text }
        return Self.anchored(Self.insertion(text, anchor), anchor)
    }

    /// The parameters with arrays of organizations, concatenated; nil without such parameters.
    private static func arrays(_ sql: String) -> String? {
        let inputs = sql.matches(of: /unnest\(([^()]*)\)(?:\s+WITH ORDINALITY|) AS \w+ \(([^()]*)\)/)
        var arrays: [String] = []
        for input in inputs {
            let names = words(input.output.2)
            let parameters = words(input.output.1)
            guard let place = names.firstIndex(of: "organization_id"), place < parameters.count,
                !arrays.contains(parameters[place])
            else { continue }
            arrays.append(parameters[place])
        }
        return arrays.isEmpty ? nil : arrays.joined(separator: " || ")
    }

    /// The parameter with the single organization; nil without such a parameter.
    private static func parameter(_ sql: String) -> String? {
        if let match = sql.firstMatch(of: /organization_id = (\$\d+)/) { return String(match.output.1) }
        let isRow = sql.contains(/^INSERT INTO [^()]*\(\s*organization_id/) && sql.contains("\nSELECT $1::uuid,")
        return isRow ? "$1" : nil
    }

    /// The text of an `INSERT … SELECT … FROM unnest(…)` for one row; nil for other statements.
    ///
    /// The statement must have no other inputs. The new text has the same arrays as parameters, and reads the first
    /// element of each array.
    var ofOneRow: String? {
        let rows = #/(?s)^(INSERT\ INTO\ .*?\n)SELECT\ (.*?)\sFROM\ unnest\(([^()]*)\)\ AS\ (\w+)\ \(([^()]*)\)(.*)$/#
        guard let match = sql.wholeMatch(of: rows) else { return nil }
        let (_, target, list, arrays, alias, names, rest) = match.output
        // ORDER BY has no effect on one row
        let ending = String(rest.replacing(/^\nORDER BY [^\n]*/, with: ""))
        let hasConditions = "\(list)\(ending)".contains(/\b(SELECT|WHERE|JOIN)\b/)
        guard !hasConditions, ending.isEmpty || ending.hasPrefix("\nON CONFLICT ") || ending.hasPrefix("\nRETURNING ")
        else {
            return nil
        }
        let values = Dictionary(uniqueKeysWithValues: zip(Self.words(names), Self.words(arrays)))
        let all = Self.words(names).map { "\(alias).\($0)" }.joined(separator: ", ")
        let given = list.replacing("\(alias).*", with: all).replacing(/\b(\w+)\.(\w+)\b/) { match in
            let array = match.output.1 == alias ? values[String(match.output.2)] : nil
            return array.map { "(\($0))[1]" } ?? String(match.output.0)
        }
        return "\(target)VALUES (\(given))\(ending)"
    }

    private static func words(_ list: Substring) -> [String] {
        list.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
    }

    private static func anchored(_ sql: String, _ anchor: String) -> String {
        sql.replacing(/\b(\w+)\.(organization_id|id) = (\w+)\.(organization_id|id)\b/) { match in
            let (all, table, column, _, other) = match.output
            // the organization's column in the table `organizations` is `id`
            let isTheirs = column == "id" && other == "organization_id" && sql.contains("organizations \(table)")
            // for inserted rows, `insertion` adds this condition after the join with `organizations`
            guard column == "organization_id" || isTheirs, table != newcomers else { return String(all) }
            return "\(all) AND \(table).\(column) \(anchor)"
        }
    }

    /// The alias of the table of organizations in an INSERT.
    private static let newcomers: Substring = "oz"

    /// Rewrites an `INSERT` so that it reads from `organizations`.
    ///
    /// The given statement is an `INSERT … SELECT k.organization_id, … FROM unnest(…) AS k (…)`.
    private static func insertion(_ sql: String, _ anchor: String) -> String {
        let rows =
            #/
            (?s)^(INSERT\ INTO\ .*?\n)SELECT\ (\w+\.organization_id|\w+\.\*)(.*?)
            \sFROM\ (unnest\([^()]*\)\ AS\ (\w+)\ \(([^()]*)\))(.*)$
            /#
        if let match = sql.wholeMatch(of: rows), words(match.output.6).contains("organization_id") {
            let (_, target, first, list, input, alias, names, rest) = match.output
            let others = first.hasSuffix("*") ? words(names).dropFirst().map { ", \(alias).\($0)" }.joined() : ""
            return """
                \(target)SELECT \(newcomers).id\(others)\(list)
                FROM organizations \(newcomers) JOIN \(input) ON \(newcomers).id = \(alias).organization_id\
                \(restricted(String(rest), "\(newcomers).id \(anchor)"))
                """
        }
        // a statement for one row, or for rows of one organization
        let row =
            #/
            (?s)^(INSERT\ INTO\ .*?\n)SELECT\ \$1::uuid(,(?:(?!\sFROM\s|\sWHERE\s).)*?)
            \s(FROM\ unnest|WHERE\ )(.*)$
            /#
        guard let match = sql.wholeMatch(of: row) else { return sql }
        let (_, target, list, next, rest) = match.output
        let source = "\(target)SELECT \(newcomers).id\(list)\nFROM organizations \(newcomers)"
        let behind = next == "WHERE " ? "\nWHERE \(rest)" : " CROSS JOIN unnest\(rest)"
        return source + restricted(behind, "\(newcomers).id \(anchor)")
    }

    /// Adds a condition after the FROM clause. Each clause of the statement must begin on its own line.
    private static func restricted(_ rest: String, _ condition: String) -> String {
        if let place = rest.firstRange(of: "\nWHERE ") {
            return String(rest[..<place.lowerBound]) + "\nWHERE \(condition) AND " + rest[place.upperBound...]
        }
        let ends = ["\nORDER BY ", "\nON CONFLICT ", "\nRETURNING "].compactMap { rest.firstRange(of: $0)?.lowerBound }
        let place = ends.min() ?? rest.endIndex
        return rest[..<place] + "\nWHERE \(condition)" + rest[place...]
    }
}

extension CitusSQLRewriter {
    /// The statements for all servers, or for a server that is not known in advance: their purposes, by statement name.
    ///
    /// While a server hangs, these statements are not sent, because each of them would hold a connection until its
    /// timeout.
    static let ofAllServers: [String: String] = [
        "lanes_due": "finds lanes of any organization, once a second; searches by shard while a server is unavailable",
        "lanes_census": "counts lanes of all organizations, four times a minute",
        "upstreams_paused": "counts paused upstreams of all organizations, four times a minute",
        "upstreams_changed": "finds changed upstreams of all organizations, once a minute",
        "lanes_census_organizations": "counts lanes of all organizations, four times a minute",
        "retention_debts": "finds rows to delete, in all organizations, by pages",
        "organization_keys_masters": "counts data keys of all organizations, once a minute",
        "organization_keys_fit": "checks, before a first data key, whether a master key wraps any existing key",
        "organization_keys_page": "rewraps the keys of all organizations, by pages, at an operator's request",
        "user_keys_page": "rewraps the keys of all organizations, by pages, at an operator's request",
        "erase_due": "finds interrupted erasures of any organization",
        "erase_backlog": "counts erasures under way, for metrics",
        "webhooks_due": "finds endpoints of any organization with something to send",
        "webhooks_behind": "finds endpoints of any organization with undelivered events",
        "webhooks_census": "counts endpoints, for metrics",
        "organizations_named": "an operator finds an organization by its name",
        "organizations_search": "an operator looks for organizations by a part of the name, by pages",
        "organizations_list": "an operator lists organizations, by pages",
        "sources_due": "finds due sources of any organization",
        "sources_followed": "lists the databases that `doctor` checks",
        "sources_census": "counts sources, for metrics",
        "ingest_due": "finds due parked events of any organization",
        "ingest_organizations": "finds records of events to delete, in all organizations, by pages",
        "restore_sources": "repairs all organizations after a restore",
        "restore_feeds": "repairs all organizations after a restore",
        "restore_lanes": "repairs all organizations after a restore",
        "restore_local_id_pages": "repairs all organizations after a restore",
        "restore_user_keys": "repairs all organizations after a restore",
        "restore_erasures": "repairs all organizations after a restore",
        "audit_page_of_all": "an operator reads the audit log of all organizations, by pages",
        "audit_old": "finds acts to delete, including acts that concern no organization, by pages",
        "now_troubled": "counts failed and conflicting mutations for the console, up to a bound",
        "now_lanes": "counts lanes for the console, up to a bound",
        "now_oldest": "finds the lane that has waited longest, for the console",
        "stuck_owners": "finds organizations with failed or conflicting mutations, by pages",
        "stuck_page_of_all": "an operator lists failed mutations of all organizations, by pages",
        "stuck_edge_of_all": "an operator lists failed mutations of all organizations, by pages",
        "stuck_page_of_some_groups_of_all": "an operator lists failed mutations of all organizations, by pages",
        "stuck_edge_of_some_groups_of_all": "an operator lists failed mutations of all organizations, by pages",
        "lanes_halted_of_all": "an operator lists lanes of any organization, by pages",
        "lanes_waiting_of_all": "an operator lists lanes of any organization, by pages",
        "operations_due": "finds due operations of any organization",
        "operation_list_of_all": "an operator lists operations, by pages",
        "operation_prune": "deletes operations of any organization that ended long ago",
    ]
}

extension Query {
    /// Adds an alternative query, which only a Citus cluster receives, for rows of a single organization.
    ///
    /// The alternative is used if all rows are of one organization. It is a statement on one table, with the
    /// organization as a parameter. The server that receives the alternative keeps its plan. Plain PostgreSQL never
    /// receives the alternative, because it could choose to read the whole table.
    ///
    /// - Parameters:
    ///   - rows: the rows that the query requests.
    ///   - alternative: returns the query for rows of one organization.
    func orOfOne<Row: Sendable>(
        _ rows: [Row],
        _ organization: (Row) -> UUID,
        _ alternative: @escaping @Sendable (UUID) -> Query
    ) -> Query {
        guard let first = rows.first.map(organization) else { return self }
        guard rows.allSatisfy({ organization($0) == first }) else { return self }
        var query = self
        query.alternative = { alternative(first) }
        return query
    }
}

/// A cache of statements that were rewritten for Citus. Each statement with a name is rewritten once.
final class RewriteCache: Sendable {
    private struct Made {
        var ofRows: Statement
        /// The form for one row. If the statement has no separate text for one row, both forms are equal.
        var ofOneRow: Statement
    }

    /// The forms, by the statement's name.
    private let made = Mutex<[String: Made]>([:])

    func of(_ query: Query) -> Query {
        let query = query.alternative?() ?? query
        let made = made(of: query.statement)
        return Query(query.isOfOneRow ? made.ofOneRow : made.ofRows, query.parameters)
    }

    private func made(of statement: Statement) -> Made {
        if let known = made.withLock({ $0[statement.name] }) { return known }
        let text = CitusSQLRewriter(statement)
        let ofRows = Statement(statement.name, text.ofRows)
        let new = Made(
            ofRows: ofRows,
            ofOneRow: text.ofOneRow.map { Statement(statement.name + "_of_one", $0) } ?? ofRows
        )
        // a statement without a name is translated each time
        if !statement.name.isEmpty { made.withLock { $0[statement.name] = new } }
        return new
    }
}
