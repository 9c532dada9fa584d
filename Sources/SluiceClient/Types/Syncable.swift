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
/// The app reads and writes its table as before. It passes each change that is to be synchronized to
/// ``SluiceClient/enqueue(_:in:)``, in the same transaction. The library writes the mapped columns when other writers
/// change them. Columns without a mapping are the app's own, and never leave the phone.
public protocol Syncable: EncodableRecord {
    /// The mapping of the table and its columns to the entity type and its members.
    static var sync: EntitySync { get }
}
