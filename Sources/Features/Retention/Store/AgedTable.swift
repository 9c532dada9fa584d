import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// A table of users' rows that retention deletes by age alone.
struct AgedTable: Sendable {
    let name: String
    /// The kind of the rows, which determines their storage period and their counter.
    let kind: RetentionKind
    /// The column with the age.
    let age: String
    let rows: AgedRows
    let delete: Statement
    private let keys: Columns<UserIDRow>

    var statements: [Statement] { [rows.statement, delete] }

    /// Creates the statements; nil for tables that are not deleted by age.
    init?(_ table: StoredTable) {
        guard case .deleted(let age, let kind) = table.aging, let owner = table.users?.owner, let id = table.key.last
        else { return nil }
        name = table.name
        self.kind = kind
        self.age = age
        rows = AgedRows("retention_\(name)", of: name, owner: owner, id: id, by: age)
        let keys = UserIDRow.columns(id)
        self.keys = keys
        // If a row was written again after it was read, it stays. The comparison of its age is in a CASE, so that the
        // plan finds the row by key and not by age.
        delete = Statement(
            "retention_delete_\(name)",
            keys.inputs + ["cutoff"],
            """
            DELETE FROM \(name) AS r
            USING \(keys.unnested(as: "k"))
            WHERE r.organization_id = k.organization_id AND r.\(owner) = k.user_id AND r.\(id) = k.\(id)
                AND CASE WHEN r.\(age) < :cutoff THEN true END
            """
        )
    }

    func retention(of organization: UUID, _ cutoffs: RetentionCutoffs) -> AgedRetention {
        let cutoff = kind.cutoff(cutoffs)
        return AgedRetention(organization: organization, cutoff: cutoff, rows: rows) {
            keys.query(delete, $0, at: cutoff)
        }
    }
}

/// A task of retention in an organization: all rows of a kind, or the rows of one table of that kind.
package struct RetentionTask: Sendable, Hashable {
    package let kind: RetentionKind
    /// The name of an ``AgedTable``; nil for other tasks.
    @Exact package private(set) var table: String?

    package init(_ kind: RetentionKind, of table: String? = nil) {
        self.kind = kind
        self.table = table
    }
}
