import Foundation
import JSONText
import SyncModel

/// A change of a document in the demo's REST API, as the API reports it to a gateway.
struct DemoEvent: Sendable {
    /// The collection's path.
    let collection: Substring
    let id: Int
    let version: Int
    /// The owner of the document.
    let owner: UUID
    /// The whole document; nil if it was deleted.
    let document: [UInt8]?
    /// `Idempotency-Key` of the request that changed it.
    let causingKey: String?

    /// `/contacts` holds entities of type `contact`, `/activities` of type `activity`.
    var entityType: String {
        let name = collection.split(separator: "/").last.map(String.init) ?? ""
        if name.hasSuffix("ies") { return name.dropLast(3) + "y" }
        return name.hasSuffix("s") ? String(name.dropLast()) : name
    }

    /// The body of a request to `/v1/ingest`.
    func batch() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("events")
        writer.beginArray()
        writer.beginObject()
        writer.member("event_id", "\(collection)/\(id):\(version)")
        writer.member("entity_type", entityType)
        writer.member("id", id)
        writer.member("version", version)
        writer.member("operation", (document == nil ? IngestOperation.delete : .upsert).rawValue)
        if let document { writer.member("document", raw: document) }
        writer.member("owner", owner)
        if let causingKey { writer.member("causing_key", causingKey) }
        writer.endObject()
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
