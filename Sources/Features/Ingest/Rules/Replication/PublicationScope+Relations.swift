package import SyncModel

extension PublicationScope {
    /// A followed table or one of its partitions on any level, as PostgreSQL's catalog describes it.
    package struct Relation: Sendable, Hashable {
        package let oid: Int64
        /// The transaction that attached the relation as a partition; empty for the followed table itself.
        @Exact package var attachment: String
        /// The number of the file that stores the relation's rows.
        package var file: Int64
        /// The oid of the TOAST table, which contains the large values; 0 if there is no TOAST table.
        package var toast: Int64
        /// Whether PostgreSQL logs the relation's changes (not stored). False for an unlogged or a foreign table.
        package var isLogged = true
        /// Whether the publication has a row for this relation, so that PostgreSQL refuses SET UNLOGGED (not stored).
        package var isProtected = false
        /// Whether the relation has no rows (not stored). This is read only for a relation that the last check did not
        /// find.
        package var isEmpty = true
        /// The relation's name (not stored).
        @Exact package var name = ""

        package init(oid: Int64, attachment: String, file: Int64, toast: Int64) {
            self.oid = oid
            self.attachment = attachment
            self.file = file
            self.toast = toast
        }

        /// Reads `oid:attachment:file:toast`. In a relation from the catalog, `:flags:name` follows.
        package init?(_ text: String) {
            let parts = text.split(separator: ":", maxSplits: 5, omittingEmptySubsequences: false)
            guard parts.count >= 4, let oid = Int64(parts[0]), let file = Int64(parts[2]), let toast = Int64(parts[3])
            else { return nil }
            self.init(oid: oid, attachment: String(parts[1]), file: file, toast: toast)
            guard parts.count == 6 else { return }
            isLogged = parts[4].utf8.contains(UInt8(ascii: "l"))
            isProtected = parts[4].utf8.contains(UInt8(ascii: "p"))
            isEmpty = parts[4].utf8.contains(UInt8(ascii: "e"))
            name = String(parts[5])
        }

        var stored: String { "\(oid):\(attachment):\(file):\(toast)" }

        /// Whether ALTER TABLE may have rewritten all rows.
        ///
        /// An ALTER TABLE that rewrites all rows replaces the TOAST table. VACUUM FULL, CLUSTER, TRUNCATE and ALTER
        /// TABLE … SET TABLESPACE keep the TOAST table. If the relation has no TOAST table, these commands cannot be
        /// distinguished, and the result is true for all of them.
        fileprivate func isRewritten(since before: Relation) -> Bool {
            file != before.file && (toast != before.toast || toast == 0)
        }
    }

    /// A column, as PostgreSQL's catalog describes it.
    package struct Definition: Sendable, Hashable {
        package let number: Int64
        /// The transaction that wrote the column's row in the catalog.
        @Exact package var revision: String
        /// Whether rows that are older than the column have its default, although PostgreSQL has not rewritten these
        /// rows.
        package var fillsRows: Bool

        package init(number: Int64, revision: String, fillsRows: Bool = false) {
            self.number = number
            self.revision = revision
            self.fillsRows = fillsRows
        }

        /// Reads `number:revision`. If older rows have the column's default, `:f` follows.
        package init?(_ text: String) {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count >= 2, let number = Int64(parts[0]) else { return nil }
            self.init(number: number, revision: String(parts[1]), fillsRows: parts.count > 2)
        }

        var stored: String { fillsRows ? "\(number):\(revision):f" : "\(number):\(revision)" }
    }
}

extension PublicationScope.Table {
    /// Returns the reason why the log may lack changes of the table or of a partition; nil if it contains all changes.
    func relationLoss(since before: PublicationScope.Table) -> String? {
        let isRedefined = isRedefined(since: before)
        for (relation, old) in pairs(with: before) {
            if relation.attachment != old.attachment {
                return "partition \(relation.name) of table \(name) was detached and attached again"
            }
            if !isRedefined, !relation.isProtected, relation.isRewritten(since: old) {
                return "table \(relation.name) was rewritten, as by SET UNLOGGED and SET LOGGED"
            }
        }
        return nil
    }

    /// Returns descriptions of changes that affected the table's rows, but are not in the log.
    func rewrites(since before: PublicationScope.Table) -> [String] {
        var found: [String] = []
        let numbers = Set(before.definitions.map(\.number))
        if isRedefined(since: before), pairs(with: before).contains(where: { $0.isRewritten(since: $1) }) {
            found.append("table \(name) was rewritten by ALTER TABLE")
        } else if definitions.contains(where: { $0.fillsRows && !numbers.contains($0.number) }) {
            found.append("table \(name) has a new column with a default")
        }
        let (known, present) = (Set(before.relations.map(\.oid)), Set(relations.map(\.oid)))
        for relation in relations where !known.contains(relation.oid) && !relation.isEmpty {
            found.append("table \(relation.name) became a partition of table \(name)")
        }
        let removed = known.subtracting(present).count
        if removed > 0 { found.append("\(removed) partition(s) of table \(name) were detached or dropped") }
        return found
    }

    private func pairs(
        with before: PublicationScope.Table
    ) -> [(PublicationScope.Relation, PublicationScope.Relation)] {
        let known = Dictionary(before.relations.map { ($0.oid, $0) }) { first, _ in first }
        return relations.compactMap { relation in known[relation.oid].map { (relation, $0) } }
    }

    /// Whether a column was added or altered.
    ///
    /// The column's row in the catalog also changes if a rewrite of the table, for example by VACUUM FULL, writes the
    /// column's default into older rows, which had the default only through the catalog. Such a change is not an
    /// alteration.
    private func isRedefined(since before: PublicationScope.Table) -> Bool {
        let known = Dictionary(before.definitions.map { ($0.number, $0) }) { first, _ in first }
        return definitions.contains { definition in
            guard let old = known[definition.number] else { return true }
            return definition.revision != old.revision && (definition.fillsRows || !old.fillsRows)
        }
    }
}
