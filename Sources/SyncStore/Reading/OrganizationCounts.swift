import Postgres

/// The stuck mutations of an organization.
package struct OrganizationCounts: Sendable {
    package let failed: CappedCount
    package let conflict: CappedCount
    package let haltedLanes: CappedCount

    /// Reads the columns behind the organization's.
    init(_ row: inout RowReader, cap: Int64) throws {
        let (failed, conflict) = (try row.int64("failed"), try row.int64("conflict"))
        let looked = try row.int64("looked")
        self.failed = CappedCount(failed, among: looked, cap: cap)
        self.conflict = CappedCount(conflict, among: looked, cap: cap)
        haltedLanes = CappedCount(looked: try row.int64("halted"), cap: cap)
    }
}
