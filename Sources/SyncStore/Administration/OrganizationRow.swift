package import Foundation
import JSONText
import Postgres
package import SyncModel

/// An organization as operators see it.
package struct OrganizationRow: Sendable {
    static let list = """
        o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, \(names("issuer")), \(names("external_id"))
        """

    private static func names(_ column: String) -> String {
        """
        ARRAY(
                SELECT x.\(column)::text FROM external_ids x WHERE x.organization_id = o.id
                ORDER BY x.issuer, x.external_id
            ) AS \(column)s
        """
    }

    package let id: UUID
    package let name: String
    package let status: OrganizationStatus
    package let settings: OrganizationSettings
    package let createdAt: Timestamp
    package let updatedAt: Timestamp
    /// Its external names, by issuer and name.
    package let externalIDs: [ExternalID]

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        id = try row.uuid("id")
        name = try row.string("name")
        status = try row.choice("status")
        settings = OrganizationSettings(stored: try JSONTree(parsing: row.bytes("settings")).root)
        createdAt = try row.moment("created_at")
        updatedAt = try row.moment("updated_at")
        let issuers = try row.strings("issuers")
        externalIDs = zip(issuers, try row.strings("external_ids")).map { issuer, id in
            ExternalID(issuer: ByteExactString(issuer), id: ByteExactString(id))
        }
    }
}
