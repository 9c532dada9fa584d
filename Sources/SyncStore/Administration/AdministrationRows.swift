import Foundation
import JSONText
import Postgres
import SyncModel

/// An organization as operators see it.
struct OrganizationRow {
    private let id: UUID
    private let name: String
    private let status: String
    private let settings: OrganizationSettings
    private let createdAt: Timestamp
    private let updatedAt: Timestamp

    init(_ rows: Rows, _ row: Int) throws {
        id = try rows.uuid(row, 0)
        name = try rows.string(row, 1)
        status = try rows.string(row, 2)
        settings = OrganizationSettings(stored: try JSONTree(parsing: rows.bytes(row, 3)).root)
        createdAt = Timestamp(microseconds: try rows.timestamp(row, 4))
        updatedAt = Timestamp(microseconds: try rows.timestamp(row, 5))
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

/// An entity type as operators see it.
struct EntityTypeRow {
    let name: String
    let idSpace: String
    private let relations: [UInt8]
    private let visibility: String
    private let defaultPriority: Int16
    private let isForwarded: Bool
    private let isInUse: Bool

    init(_ rows: Rows, _ row: Int) throws {
        name = try rows.string(row, 0)
        idSpace = try rows.string(row, 1)
        visibility = try rows.string(row, 2)
        defaultPriority = try rows.int16(row, 3)
        isForwarded = try rows.bool(row, 4)
        isInUse = try rows.bool(row, 5)
        relations = try rows.bytes(row, 6)
    }

    func parsedRelations() throws -> [Relation] {
        EntityType.relations(stored: try JSONTree(parsing: relations).root)
    }

    func json() throws -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("name", name)
        writer.member("id_space", idSpace)
        writer.name("relations")
        writer.beginObject()
        for relation in try parsedRelations() {
            writer.name(relation.member)
            writer.string(relation.entityType)
        }
        writer.endObject()
        writer.member("visibility", visibility)
        writer.member("default_priority", Int64(defaultPriority))
        writer.member("upstream", isForwarded)
        writer.member("in_use", isInUse)
        writer.endObject()
        return writer.bytes
    }
}
