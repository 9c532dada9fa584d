import Foundation
import Postgres
import SyncModel

/// An entity to be written.
///
/// With the number of its organization's later writes in this transaction.
struct EntityRow {
    let organization: UUID
    let key: EntityKey
    var state: EntityState
    let beforeEnd: Int64

    static let columns = Columns<EntityRow>(
        .uuid("organization_id", \.organization),
        .text("entity_type", \.key.type),
        .text("id", \.key.id),
        .bool("id_is_integer", \.state.isIntegerID),
        .int8("version", \.state.version),
        .bool("is_deleted", \.state.isDeleted),
        .json("document", \.state.document),
        .int8("before_end", \.beforeEnd),
        .uuid("owner_id", \.state.owner),
        .uuid("client_id", \.state.clientID),
        .uuid("updated_by", \.state.lastWriter.user),
        .uuid("updated_on", \.state.lastWriter.device),
        .int8("run_base", \.state.runBase),
        .text("etag", \.state.etag)
    )

    /// Seals the document for storage.
    mutating func seal(_ seals: SealTable) throws(SealError) {
        let place = SealedPlace.document(type: key.type, id: key.id)
        let seal = seals[organization]
        let owner = seal.user(ofType: key.type, owner: state.owner)
        state.document = try seal.seal(json: state.document, as: place, of: owner)
    }
}
