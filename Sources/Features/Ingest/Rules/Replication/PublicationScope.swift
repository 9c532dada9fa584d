import JSONText
package import SyncModel

/// The part of a publication that concerns the followed tables, as PostgreSQL's catalog describes it.
///
/// PostgreSQL filters each change by the publication's state at the commit of the change. If the publication did not
/// contain a change at that time, the log lacks the change, even if the publication is corrected later. Therefore a
/// source stores the scope that it follows, and compares it with the catalog at each start and every twenty seconds.
package struct PublicationScope: Sendable, Hashable {
    /// A followed table in the publication.
    package struct Table: Sendable, Hashable {
        /// The table's name in the settings.
        package var name: QualifiedName
        /// The table's oid. If another table has the same name now, the oid differs.
        package var oid: Int64
        /// The catalog rows through which the publication contains the table. Such a row names the table, its schema,
        /// or all tables.
        ///
        /// PostgreSQL replaces such a row if an operator sets the table, its condition or its column list again.
        /// PostgreSQL also writes a row if the table moves to another schema or is attached to a partitioned table.
        package var members: Set<ByteExactString>
        /// A hash of the table's condition (WHERE); empty if there is no condition.
        @Exact package var filter: String
        /// The numbers of the columns in the column list; nil if there is no list.
        package var columns: Set<Int64>?
        /// Whether the log contains the table's changes under the table's own name.
        ///
        /// It is not stored, because a scope is stored only if no changes are missing.
        package var isPublished = true
        /// The table and all of its partitions.
        package var relations: [Relation] = []
        package var definitions: [Definition] = []

        package init(name: QualifiedName, oid: Int64, members: [String], filter: String, columns: [Int64]?) {
            self.name = name
            self.oid = oid
            self.members = Set(members.map { ByteExactString($0) })
            self.filter = filter
            self.columns = columns.map { Set($0) }
        }

        /// Creates the scope of a table that no longer exists.
        package init(dropped name: QualifiedName) {
            self.init(name: name, oid: 0, members: [], filter: "", columns: nil)
        }
    }

    @Exact package var name: String
    package var oid: Int64
    /// The transaction that wrote the publication's row in the catalog.
    @Exact package var revision: String
    /// A hash of the publication's row in the catalog.
    @Exact package var row: String
    package var tables: [Table]

    package init(name: String, oid: Int64, revision: String, row: String, tables: [Table]) {
        self.name = name
        self.oid = oid
        self.revision = revision
        self.row = row
        self.tables = tables
    }

    /// Returns the reason why the log may lack changes since an earlier check; nil if it contains all changes.
    ///
    /// Only tables that the settings still name are compared. No changes are lost if a column list became longer, or if
    /// other properties of the publication were changed.
    ///
    /// - Parameter known: the scope of the earlier check.
    package func loss(since known: PublicationScope) -> String? {
        guard name == known.name else { return nil }
        if oid != known.oid { return "it was dropped and created again" }
        if revision != known.revision, row == known.row { return "it was changed and changed back" }
        for table in tables {
            guard let before = known.table(table) else { continue }
            if let loss = table.loss(since: before) { return loss }
        }
        return nil
    }

    /// Returns descriptions of changes that affected rows since an earlier check, but are not in the log.
    ///
    /// - Parameter known: the scope of the earlier check. ``loss(since:)`` must be nil for it.
    package func rewrites(since known: PublicationScope) -> [String] {
        guard name == known.name else { return [] }
        return tables.flatMap { table in known.table(table).map { table.rewrites(since: $0) } ?? [] }
    }

    /// The name of a followed table or partition that PostgreSQL does not log; nil if all of them are logged.
    package var unlogged: String? { tables.lazy.flatMap(\.relations).first { !$0.isLogged }?.name }

    /// Returns a table's entry in this scope, which is from an earlier check. The table is found by its oid or, if no
    /// table has this oid, by its name.
    private func table(_ table: Table) -> Table? {
        tables.first { $0.oid == table.oid } ?? tables.first { $0.name == table.name }
    }
}

extension PublicationScope.Table {
    fileprivate func loss(since before: PublicationScope.Table) -> String? {
        if oid != before.oid { return "table \(name) was dropped and created again, or replaced by another table" }
        if members.isEmpty || !isPublished { return "it does not publish changes of table \(name) any more" }
        if filter != before.filter { return "the condition of table \(name) in it was changed" }
        if let columns, columns != before.columns, before.columns.map({ columns.isSuperset(of: $0) }) != true {
            return "the column list of table \(name) in it was shortened"
        }
        if columns == before.columns, members.isDisjoint(with: before.members) {
            return "table \(name) was removed from it and added again"
        }
        return relationLoss(since: before)
    }
}

extension PublicationScope {
    init?(_ value: JSONValue) {
        guard let name = value["name"]?.string, let oid = value["oid"]?.int64,
            let revision = value["xmin"]?.string, let row = value["row"]?.string,
            let elements = value["tables"]?.elements
        else { return nil }
        var tables: [Table] = []
        for element in elements {
            guard let table = Table(element) else { return nil }
            tables.append(table)
        }
        self.init(name: name, oid: oid, revision: revision, row: row, tables: tables)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("oid", oid)
        writer.member("xmin", revision)
        writer.member("row", row)
        writer.name("tables")
        writer.beginArray()
        for table in tables {
            writer.beginObject()
            table.writeMembers(to: &writer)
            writer.endObject()
        }
        writer.endArray()
    }
}

extension PublicationScope.Table {
    fileprivate init?(_ value: JSONValue) {
        guard let name = value["table"]?.string.flatMap({ QualifiedName($0) }), let oid = value["oid"]?.int64,
            let members = value["memberships"]?.elements?.compactMap(\.string), let filter = value["filter"]?.string,
            // older gateways did not store these members; a scope without them is treated as missing
            let relations = value["relations"]?.elements, let definitions = value["definitions"]?.elements
        else { return nil }
        self.init(
            name: name,
            oid: oid,
            members: members,
            filter: filter,
            columns: value["columns"]?.elements?.compactMap(\.int64)
        )
        self.relations = relations.compactMap { $0.string.flatMap { PublicationScope.Relation($0) } }
        self.definitions = definitions.compactMap { $0.string.flatMap { PublicationScope.Definition($0) } }
    }

    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("table", name.description)
        writer.member("oid", oid)
        writer.name("memberships")
        writer.beginArray()
        for member in members.map(\.string).sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            writer.string(member)
        }
        writer.endArray()
        writer.member("filter", filter)
        writer.name("relations")
        writer.beginArray()
        for relation in relations { writer.string(relation.stored) }
        writer.endArray()
        writer.name("definitions")
        writer.beginArray()
        for definition in definitions { writer.string(definition.stored) }
        writer.endArray()
        guard let columns else { return }
        writer.name("columns")
        writer.beginArray()
        for column in columns.sorted() { writer.int(column) }
        writer.endArray()
    }
}
