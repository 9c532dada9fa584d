import JSONText
package import SyncModel

/// A table whose rows are entities.
package struct FollowedTable: Sendable, Hashable {
    /// Columns that may be named, as many as a table can have.
    static let columnLimit = 1_600

    /// Which columns are in the documents, and as what.
    package enum Columns: Sendable, Hashable {
        /// Each by its name.
        case all
        /// Column and member, in order.
        case named([Member])
    }

    package struct Member: Sendable, Hashable {
        @Exact package private(set) var column: String
        @Exact package private(set) var name: String
    }

    package private(set) var name: QualifiedName
    @Exact package private(set) var entityType: String
    /// The columns with the entity's permanent id: one, or several that ``RowID`` joins.
    @Exact package private(set) var ids: [String]
    /// The column with the owner of an entity of a private type.
    @Exact package private(set) var owner: String?
    /// The column with a number that grows with each change; else the change's place in the log is its version.
    @Exact package private(set) var version: String?
    /// The column with the `Idempotency-Key` of the request that wrote the row last.
    @Exact package private(set) var causingKey: String?
    /// The column that is not null, or true, in rows that count as deleted.
    @Exact package private(set) var deletedAt: String?
    package private(set) var columns: Columns = .all
    /// The columns' names in some part of the log, and their names in the settings.
    package private(set) var renamed: [RenamedColumn] = []

    private static let what =
        "a table: table, entity_type, id, owner, version, causing_key, deleted_at, columns, renamed"

    init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        let before = report.problems.count
        var (table, entityType): (QualifiedName?, String?) = (nil, nil)
        var columns = Columns.all
        var renamed: [RenamedColumn] = []
        var roles: [ByteExactString: String] = [:]
        var ids: [String] = []
        let seen = report.members(of: value, at: pointer, Self.what) { report, member, place, value in
            switch member {
            case "table":
                let detail = "table must be schema.name; write a part with a dot or a quote in double quotes"
                table = report.value(value.string.flatMap { QualifiedName($0) }, at: place, detail)
            case "entity_type":
                let text = value.string.flatMap { EntityType.isValidName($0) ? $0 : nil }
                let detail = "entity_type must match [a-z][a-z0-9_-]{0,63}"
                entityType = report.value(text, at: place, rule: Rule.entityType, detail)
            case "id": ids = Self.ids(value, at: place, &report)
            case "owner", "version", "causing_key", "deleted_at": roles[member] = report.column(value, at: place)
            case "columns": columns = Self.columns(value, at: place, &report)
            case "renamed": renamed = RenamedColumn.read(value, at: place, &report)
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["table", "entity_type", "id"], in: seen, at: pointer)
        guard report.problems.count == before, let table, let entityType, !ids.isEmpty else { return nil }
        name = table
        self.entityType = entityType
        self.ids = ids
        owner = roles["owner"]
        version = roles["version"]
        causingKey = roles["causing_key"]
        deletedAt = roles["deleted_at"]
        self.columns = columns
        self.renamed = renamed
    }

    /// A column, or an array of the columns that identify a row together.
    private static func ids(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) -> [String] {
        guard value.kind == .array else { return report.column(value, at: pointer).map { [$0] } ?? [] }
        let elements = value.elements.map { Array($0.prefix(RowID.columnLimit + 1)) } ?? []
        guard (2...RowID.columnLimit).contains(elements.count) else {
            let detail =
                "id must be a column (a string), or an array of 2 to \(RowID.columnLimit) columns"
            report.refuse(pointer, Rule.range, detail)
            return []
        }
        var ids: [String] = []
        for (index, element) in elements.enumerated() {
            guard let column = report.column(element, at: "\(pointer)/\(index)") else { continue }
            if ids.contains(column) {
                report.refuse("\(pointer)/\(index)", Rule.range, "column '\(column)' is in id twice")
            }
            ids.append(column)
        }
        return ids
    }

    private static func columns(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) -> Columns {
        if value.stringEquals("all") { return .all }
        guard value.kind == .object else {
            let detail = #"columns must be "all", or an object of columns and members' names"#
            report.refuse(pointer, Rule.memberType, detail)
            return .all
        }
        var members: [Member] = []
        var names: Set<ByteExactString> = []
        report.members(of: value, at: pointer, "columns") { report, column, place, value in
            guard members.count < columnLimit, report.isColumn(column, at: place) else { return true }
            guard let name = report.text(value, at: place, limit: 200) else { return true }
            if !names.insert(name).inserted {
                report.refuse(place, Rule.range, "two columns have the member name '\(name)'")
            }
            members.append(Member(column: column, name: name))
            return true
        }
        if members.isEmpty {
            report.refuse(pointer, Rule.range, "columns must contain at least one column")
        }
        return .named(members)
    }

    /// The columns that the settings name, with where.
    package var wanted: [(role: String, column: String)] {
        var wanted = ids.map { ("id", $0) }
        for (role, column) in [
            ("owner", owner), ("version", version), ("causing_key", causingKey), ("deleted_at", deletedAt),
        ] {
            if let column { wanted.append((role, column)) }
        }
        if case .named(let members) = columns { wanted += members.map { ("columns", $0.column) } }
        return wanted
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("table", name.description)
        writer.member("entity_type", entityType)
        if let id = ids.first, ids.count == 1 {
            writer.member("id", id)
        } else {
            writer.name("id")
            writer.beginArray()
            for id in ids { writer.string(id) }
            writer.endArray()
        }
        if let owner { writer.member("owner", owner) }
        if let version { writer.member("version", version) }
        if let causingKey { writer.member("causing_key", causingKey) }
        if let deletedAt { writer.member("deleted_at", deletedAt) }
        writer.name("columns")
        switch columns {
        case .all: writer.string("all" as StaticString)
        case .named(let members):
            writer.beginObject()
            for member in members {
                writer.name(member.column)
                writer.string(member.name)
            }
            writer.endObject()
        }
        if !renamed.isEmpty {
            writer.name("renamed")
            writer.beginObject()
            for column in renamed {
                writer.name(column.name)
                writer.string(column.meant)
            }
            writer.endObject()
        }
        writer.endObject()
    }
}

extension SettingsReport {
    /// The name of a column.
    mutating func column(_ value: JSONValue, at pointer: String) -> String? {
        text(value, at: pointer, limit: QualifiedName.partLimit)
    }

    /// Whether a member is called as a column can be.
    mutating func isColumn(_ name: String, at pointer: String) -> Bool {
        let isName = !name.isEmpty && name.utf8.count <= QualifiedName.partLimit
        if !isName { refuse(pointer, Rule.range, "a column's name has 1 to \(QualifiedName.partLimit) bytes") }
        return isName
    }
}

// MARK: - QualifiedName

/// A table's name with its schema's, each as the catalog has it.
package struct QualifiedName: Sendable, Hashable, CustomStringConvertible {
    /// What PostgreSQL keeps of a name, in bytes.
    static let partLimit = 63

    @Exact package private(set) var schema: String
    @Exact package private(set) var name: String

    package init(schema: String, name: String) {
        self.schema = schema
        self.name = name
    }

    /// Reads `schema.name`, each part as it is, or in double quotes if it has a dot or a quote. Nil for another form.
    package init?(_ text: String) {
        var rest = text.unicodeScalars[...]
        guard let schema = Self.part(&rest), rest.popFirst() == ".", let name = Self.part(&rest), rest.isEmpty
        else { return nil }
        self.init(schema: schema, name: name)
    }

    /// What ``init(_:)`` reads.
    package var description: String { "\(Self.written(schema)).\(Self.written(name))" }

    private static let quote: Unicode.Scalar = "\""

    private static func part(_ rest: inout Substring.UnicodeScalarView) -> String? {
        var part = String.UnicodeScalarView()
        if rest.first == quote {
            rest.removeFirst()
            while let next = rest.popFirst() {
                if next == "\"" {
                    guard rest.first == quote else { return isGood(String(part)) ? String(part) : nil }
                    rest.removeFirst()
                }
                part.append(next)
            }
            return nil
        }
        while let next = rest.first, next != "." {
            guard next != "\"" else { return nil }
            part.append(next)
            rest.removeFirst()
        }
        return isGood(String(part)) ? String(part) : nil
    }

    private static func isGood(_ part: String) -> Bool {
        (1...partLimit).contains(part.utf8.count) && !part.utf8.contains(0)
    }

    private static func written(_ part: String) -> String {
        part.contains(".") || part.contains("\"") ? "\"\(part.replacing("\"", with: "\"\""))\"" : part
    }
}

/// A column that has another name in some part of the log than the settings give it.
package struct RenamedColumn: Sendable, Hashable {
    /// Its name in the log.
    @Exact package private(set) var name: String
    /// Its name in the settings.
    @Exact package private(set) var meant: String

    /// Reads an object that maps names in the log to names in the settings.
    static func read(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) -> [RenamedColumn] {
        var found: [RenamedColumn] = []
        report.members(of: value, at: pointer, "columns' other names") { report, name, place, value in
            guard found.count < FollowedTable.columnLimit, report.isColumn(name, at: place),
                let meant = report.column(value, at: place)
            else { return true }
            if name == meant { report.refuse(place, Rule.range, "column '\(name)' would be renamed to itself") }
            found.append(RenamedColumn(name: name, meant: meant))
            return true
        }
        return found
    }
}

extension FollowedTable {
    /// Returns the columns that the settings call by another name.
    ///
    /// A renaming applies only if no column has the name in the settings. Of several, the first applies.
    package func renamings(of columns: some Sequence<String>) -> [ByteExactString: String] {
        guard !renamed.isEmpty else { return [:] }
        var names = Set<ByteExactString>(columns)
        var found: [ByteExactString: String] = [:]
        for column in renamed where names.contains(column.name) && found[column.name] == nil {
            if names.insert(column.meant).inserted { found[column.name] = column.meant }
        }
        return found
    }
}
