package import Foundation
import Postgres
package import SyncModel

/// An entity as a feed shows it.
package struct FeedChange: Sendable {
    package let entityType: String
    package let id: ServerID
    package let isDeleted: Bool
    /// The creator's client id, shown to the creator only.
    package let clientID: UUID?
    /// A device's local id of the entity, in the place of the creator's client id.
    package private(set) var localID: Int64?
    package let version: Int64
    /// In stored form until ``show(_:localID:)`` sets the form to be shown.
    package private(set) var document: [UInt8]?
    /// Whether a document is stored that cannot be opened.
    package private(set) var isUnreadable = false
    package let updatedAt: Timestamp
    package let updatedBy: UUID
    package let etag: String?

    init(_ row: inout RowReader) throws {
        entityType = try row.string("entity_type")
        id = ServerID(text: try row.string("server_id"), isInteger: try row.bool("server_id_is_integer"))
        clientID = try row.optionalUUID("client_id")
        version = try row.int64("version")
        isDeleted = try row.bool("is_deleted")
        document = try row.optionalBytes("document")
        updatedAt = try row.moment("updated_at")
        updatedBy = try row.uuid("updated_by")
        etag = try row.optionalString("etag")
    }

    /// The entity's document as it was written.
    ///
    /// Nil for a tombstone, and where it cannot be opened.
    func document(_ seal: Seal) throws -> [UInt8]? {
        var unreadable: [String] = []
        return try seal.read(json: document, as: .document(type: entityType, id: id.text), &unreadable)
    }

    /// Replaces the stored document by the one to be shown.
    mutating func show(_ shown: [UInt8]?, localID: Int64? = nil) {
        isUnreadable = shown == nil && document != nil
        document = shown
        self.localID = localID
    }
}
