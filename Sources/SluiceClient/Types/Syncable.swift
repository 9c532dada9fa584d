public import GRDB

/// A record of the app that is synchronized: which of its columns are which members of the gateway's documents.
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
/// The app keeps reading and writing its table. It passes each change that is to be synchronized to
/// ``SluiceClient/enqueue(_:in:)``, in the same transaction. The library writes the mapped columns when others change
/// them. Columns that the map leaves out are the app's own, and never leave the phone.
public protocol Syncable: EncodableRecord {
    /// Which table and columns are which entity type and members.
    static var sync: EntitySync { get }
}
