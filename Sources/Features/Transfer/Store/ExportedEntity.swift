import Foundation
import JSONText
import Postgres
import SyncModel
import SyncStore

/// An entity that becomes a line of an export.
struct ExportedEntity {
    let position: Int64
    let key: EntityKey
    private let id: ServerID
    /// Nil for a tombstone, and if it cannot be opened.
    let document: [UInt8]?
    let isUnreadable: Bool
    /// Nil for an entity without an owner.
    private let owner: UUID?
    private let updatedAt: Timestamp
    /// Whether only the owner sees it.
    private let isPrivate: Bool

    /// Reads the columns of ``EntityExport/statement`` behind `is_cut`.
    init(_ row: inout RowReader, at position: Int64, _ seal: Seal) throws {
        self.position = position
        key = try row.entityKey()
        id = ServerID(text: key.id, isInteger: try row.bool("id_is_integer"))
        var unreadable: [String] = []
        document = try seal.read(
            json: row.optionalBytes("document"),
            as: .document(type: key.type, id: key.id),
            &unreadable
        )
        isUnreadable = !unreadable.isEmpty
        let owner = try row.uuid("owner_id")
        self.owner = owner == Writer.elsewhere.user || owner == .least ? nil : owner
        updatedAt = try row.moment("updated_at")
        isPrivate = try row.bool("is_private")
    }

    /// Appends the line, as ``EntityLine`` reads it.
    ///
    /// The line gives the age of the entity as a time: an import would take the feed's versions for the source's.
    func appendLine(to lines: inout [UInt8], cursor: FeedCursor) {
        var writer = JSONWriter(capacity: 256 + (document?.count ?? 0))
        writer.beginObject()
        writer.member("entity_type", key.type)
        writer.member("id", id)
        if document == nil { writer.member("deleted", true) }
        if isPrivate { writer.member("private", true) }
        if let owner { writer.member("owner", owner) }
        writer.member("occurred_at", updatedAt.rfc3339)
        if let document { writer.member("document", raw: document.inOneLine) }
        writer.member("cursor", cursor.text)
        writer.endObject()
        lines += writer.bytes
        lines.append(0x0a)
    }
}
