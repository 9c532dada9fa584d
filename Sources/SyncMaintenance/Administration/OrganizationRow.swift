package import Foundation
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// An organization as operators see it.
package struct OrganizationRow: Sendable {
    static let list = "o.id, o.name, o.status, o.settings, o.created_at, o.updated_at"

    package let id: UUID
    package let name: String
    package let status: OrganizationStatus
    package let settings: OrganizationSettings
    package let createdAt: Timestamp
    package let updatedAt: Timestamp

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        id = try row.uuid("id")
        name = try row.string("name")
        status = try row.choice("status")
        settings = OrganizationSettings(stored: try JSONTree(parsing: row.bytes("settings")).root)
        createdAt = try row.moment("created_at")
        updatedAt = try row.moment("updated_at")
    }
}
