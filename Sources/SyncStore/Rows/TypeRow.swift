import Foundation
import Postgres
import SyncModel

/// An entity type that is in use from this push on.
struct TypeRow {
    let organization: UUID
    let type: EntityType

    static let columns = Columns<TypeRow>(
        .uuid("organization_id", \.organization),
        .text("name", \.type.name),
        .choice("id_space", \.type.idSpace),
        .choice("visibility", \.type.visibility),
        .int2("default_priority", \.type.defaultPriority),
        .bool("is_forwarded", \.type.isForwarded),
        .text("relations") { String(decoding: $0.type.storedRelations, as: UTF8.self) }
    )
}
