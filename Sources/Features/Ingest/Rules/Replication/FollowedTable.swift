package import JSONText
package import SyncModel

/// A table whose rows are entities.
package struct FollowedTable: TableObject, Hashable {
    /// The maximum number of columns of a table in PostgreSQL.
    static let columnLimit = 1_600

    /// The columns that become members of the documents.
    package enum Columns: Sendable, Hashable {
        /// All columns. The members have the columns' names.
        case all
        /// Some columns, in order, with the names of their members.
        case named([Member])
    }

    package struct Member: Sendable, Hashable {
        @Exact package private(set) var column: String
        @Exact package private(set) var name: String
    }

    package private(set) var name = QualifiedName(schema: "", name: "")
    @Exact package private(set) var entityType: String = ""
    /// The columns with the entity's permanent id. Either one column contains the id, or ``RowID`` joins several
    /// columns.
    @Exact package private(set) var ids: [String] = []
    /// The column with the owner of an entity, for entity types that are private.
    @Exact package private(set) var owner: String?
    /// The column with a number that grows with each change. If there is no such column, the version of a change is its
    /// position in the log.
    @Exact package private(set) var version: String?
    /// The column with the `Idempotency-Key` of the request that last wrote the row.
    @Exact package private(set) var causingKey: String?
    /// The column that marks rows as deleted. A boolean column marks the rows in which it is true. Any other column
    /// marks the rows in which it is not null.
    @Exact package private(set) var deletedAt: String?
    package private(set) var columns: Columns = .all
    /// Whether the operator states that no id of the table's rows occurs in another table of the same entity type.
    package private(set) var hasDistinctIDs = false
    /// The columns that have another name in a part of the log than in the settings.
    package private(set) var renamed: [RenamedColumn] = []

    package init() {}

    package static let table = MemberTable<Self, Self>("a table") {
        BodyMember("table", .qualifiedName, as: \.name).required()
        BodyMember("entity_type", .entityType, as: \.entityType).required()
        BodyMember("id", MemberKind { ids($0, at: $1.pointer, &$2) }, into: \.ids)
            .required()
            .written { table, writer in
                if table.ids.count == 1 { table.ids[0].write(to: &writer) } else { table.ids.write(to: &writer) }
            }
        BodyMember("owner", .column, as: \.owner)
        BodyMember("version", .column, as: \.version)
        BodyMember("causing_key", .column, as: \.causingKey)
        BodyMember("deleted_at", .column, as: \.deletedAt)
        BodyMember("columns", MemberKind { columns($0, at: $1.pointer, &$2) }, as: \.columns)
        BodyMember("renamed", MemberKind { RenamedColumn.read($0, at: $1.pointer, &$2) }, into: \.renamed)
            .written { table, writer in
                writer.object { writer in
                    for column in table.renamed {
                        writer.name(column.name)
                        writer.string(column.meant)
                    }
                }
            }
            .omitted { $0.renamed.isEmpty }
        BodyMember("distinct_ids", .bool(subject: "this"), as: \.hasDistinctIDs).omitted { !$0.hasDistinctIDs }
    }

    /// Reads a column, or an array of columns that together identify a row.
    private static func ids(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) -> [String] {
        guard value.kind == .array else {
            return MemberKind.column.read(value, at: pointer, &report).map { [$0] } ?? []
        }
        let elements = value.elements.map { Array($0.prefix(RowID.columnLimit + 1)) } ?? []
        guard (2...RowID.columnLimit).contains(elements.count) else {
            let detail =
                "id must be a column (a string), or an array of 2 to \(RowID.columnLimit) columns"
            report.refuse(pointer, Rule.range, detail)
            return []
        }
        var ids: [String] = []
        for (index, element) in elements.enumerated() {
            guard let column = MemberKind.column.read(element, at: "\(pointer)/\(index)", &report) else { continue }
            if ids.contains(column) {
                report.refuse("\(pointer)/\(index)", Rule.range, "column '\(column)' is in id twice")
            }
            ids.append(column)
        }
        return ids
    }

    private static func columns(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) -> Columns {
        if value.stringEquals("all") { return .all }
        guard value.kind == .object else {
            let detail = #"columns must be "all", or an object of columns and members' names"#
            report.refuse(pointer, Rule.memberType, detail)
            return .all
        }
        var members: [Member] = []
        var names: Set<ByteExactString> = []
        report.members(of: value, at: pointer, "columns") { report, column, place, value in
            guard members.count < columnLimit, report.isColumn(column, at: place),
                let name = MemberKind<String>.plain(200).read(value, at: place, &report)
            else { return }
            if !names.insert(name).inserted {
                report.refuse(place, Rule.range, "two columns have the member name '\(name)'")
            }
            members.append(Member(column: column, name: name))
        }
        if members.isEmpty {
            report.refuse(pointer, Rule.range, "columns must contain at least one column")
        }
        return .named(members)
    }

    /// The columns that the settings name, each with its role.
    package var namedColumns: [(role: String, column: String)] {
        var found = ids.map { ("id", $0) }
        for (role, column) in [
            ("owner", owner), ("version", version), ("causing_key", causingKey), ("deleted_at", deletedAt),
        ] {
            if let column { found.append((role, column)) }
        }
        if case .named(let members) = columns { found += members.map { ("columns", $0.column) } }
        return found
    }
}

extension FollowedTable.Columns: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        guard case .named(let members) = self else { return writer.string("all" as StaticString) }
        writer.object { writer in
            for member in members {
                writer.name(member.column)
                writer.string(member.name)
            }
        }
    }
}

extension MemberKind<QualifiedName> {
    fileprivate static var qualifiedName: Self {
        Self("must be schema.name; write a part with a dot or a quote in double quotes") {
            $0.string.flatMap { QualifiedName($0) }
        }
    }
}

extension MemberReport {
    /// Whether a member's name can be the name of a column. If not, adds an error to the report.
    mutating func isColumn(_ name: String, at pointer: String) -> Bool {
        let isName = !name.isEmpty && name.utf8.count <= QualifiedName.partLimit
        if !isName { refuse(pointer, Rule.range, "a column's name has 1 to \(QualifiedName.partLimit) bytes") }
        return isName
    }
}

// MARK: - QualifiedName

/// The names of a table and its schema, as PostgreSQL's catalog contains them.
package struct QualifiedName: Sendable, Hashable, CustomStringConvertible, JSONWritable {
    /// The maximum length of a name in bytes. PostgreSQL truncates longer names.
    static let partLimit = 63

    @Exact package private(set) var schema: String
    @Exact package private(set) var name: String

    package init(schema: String, name: String) {
        self.schema = schema
        self.name = name
    }

    /// Reads `schema.name`; nil for other text. Double quotes are permitted only around a part with a dot or a quote.
    package init?(_ text: String) {
        var rest = text.unicodeScalars[...]
        guard let schema = Self.part(&rest), rest.popFirst() == ".", let name = Self.part(&rest), rest.isEmpty
        else { return nil }
        self.init(schema: schema, name: name)
    }

    /// The name in the form that ``init(_:)`` reads.
    package var description: String { "\(Self.written(schema)).\(Self.written(name))" }

    package func write(to writer: inout JSONWriter) { writer.string(description) }

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

/// A column whose name in some part of the log differs from its name in the settings.
package struct RenamedColumn: Sendable, Hashable {
    /// The column's name in the log.
    @Exact package private(set) var name: String
    /// The column's name in the settings.
    @Exact package private(set) var meant: String

    /// Reads an object that maps names in the log to names in the settings.
    static func read(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) -> [RenamedColumn] {
        var found: [RenamedColumn] = []
        report.members(of: value, at: pointer, "columns' other names") { report, name, place, value in
            guard found.count < FollowedTable.columnLimit, report.isColumn(name, at: place),
                let meant = MemberKind.column.read(value, at: place, &report)
            else { return }
            if name == meant { report.refuse(place, Rule.range, "column '\(name)' would be renamed to itself") }
            found.append(RenamedColumn(name: name, meant: meant))
        }
        return found
    }
}

extension FollowedTable {
    /// Returns the new names of columns that have another name in the log than in the settings, by their names in the
    /// log.
    ///
    /// The new name is the name in the settings. A column keeps its name if the table already has a column with the new
    /// name. If several columns could get the same new name, only the first of them in the settings gets it.
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
