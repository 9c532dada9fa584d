public import GRDB

/// A record of the app that is synchronized, with the mapping of its columns to members of the gateway's documents.
///
///     struct Visit: Codable, FetchableRecord, PersistableRecord, Syncable {
///         var id: UUID, contactID: UUID, note: String, startedAt: Date
///
///         static let sync = EntitySync(
///             "visit", table: "visit", key: .uuid("id"),
///             columns: [
///                 .reference("contactID", to: "contact"), .text("note"), .date("startedAt"),
///             ]
///         )
///     }
///
/// The app reads and writes its table as before. If a change has to be synchronized, the app passes it to
/// ``SluiceClient/enqueue(_:in:)`` in the same transaction. When other writers change an entity, the library writes the
/// mapped columns. Columns without a mapping never leave the phone.
public protocol Syncable: EncodableRecord {
    /// The mapping of the table to the entity type, and of the columns to members.
    static var sync: EntitySync { get }
}
