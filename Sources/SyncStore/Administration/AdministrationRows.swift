import Foundation
import JSONText
import Postgres
import SyncModel

/// An organization as operators see it.
struct OrganizationRow {
    static let list = "o.id, o.name, o.status, o.settings, o.created_at, o.updated_at"

    let id: UUID
    private let name: String
    private let status: String
    private let settings: OrganizationSettings
    private let createdAt: Timestamp
    private let updatedAt: Timestamp

    /// Reads what ``list`` names.
    init(_ row: inout RowReader) throws {
        id = try row.uuid("id")
        name = try row.string("name")
        status = try row.string("status")
        settings = OrganizationSettings(stored: try JSONTree(parsing: row.bytes("settings")).root)
        createdAt = try row.moment("created_at")
        updatedAt = try row.moment("updated_at")
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("name", name)
        writer.member("status", status)
        writer.name("settings")
        settings.write(to: &writer)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
        writer.endObject()
    }

    func json() -> [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension EntityType {
    /// The type as operators see it.
    func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("name", name)
        writer.member("id_space", idSpace.rawValue)
        writer.name("relations")
        writer.beginObject()
        for relation in relations {
            writer.name(relation.member)
            writer.string(relation.entityType)
        }
        writer.endObject()
        writer.member("visibility", visibility.rawValue)
        writer.member("default_priority", Int64(defaultPriority))
        writer.member("upstream", isForwarded)
        writer.member("in_use", isInUse)
        writer.endObject()
        return writer.bytes
    }
}
