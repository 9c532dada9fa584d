import JSONText
package import SyncModel

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
