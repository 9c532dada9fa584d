import Foundation
import Postgres
import SyncModel
import SyncStore

/// Deletes old rows of the audit log, of all organizations together: the log outlives them.
struct AuditRetention: Sendable {
    let cutoffs: RetentionCutoffs

    struct Row: Sendable {
        let organization: UUID
        let id: UUID
        let at: Timestamp

        init(_ row: inout RowReader) throws {
            organization = try row.uuid("organization_id")
            id = try row.uuid("id")
            at = try row.moment("at")
        }

        var place: RetentionPosition { .aged(at, user: organization, id: id) }
    }

    /// Reads a page of old rows, the oldest first.
    func page(after place: RetentionPosition?, limit: Int) -> Query {
        var last = UUID.least
        if case .aged(_, _, let id) = place { last = id }
        return AuditStatements.old(
            before: UUIDv7Generator.least(at: cutoffs.audit),
            after: last,
            limit: Int64(limit)
        )
    }

    func drop(_ rows: [Row]) -> Query {
        AuditStatements.drop(organizations: rows.map(\.organization), ids: rows.map(\.id))
    }
}
