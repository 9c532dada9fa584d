import HTTPTypes
import JSONText
import SyncModel
import SyncStore

/// `POST /v1/id-mappings/lookup`: which server ids the caller's client ids have become.
struct MappingEndpoint: Sendable {
    let store: Store
    let bodies: BodyReader

    func lookUp(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let limit = bodies.limit
        let lookup = try await bodies.withBody(of: exchange) { body in
            try await LongWork.read(body) { body throws(Problem) in try MappingLookup(body: body, limit: limit) }
        }
        let mappings = try await store.mappings.lookup(
            lookup.clientIDs,
            entityType: lookup.entityType,
            organization: caller.organization.id,
            user: caller.user
        )
        var writer = JSONWriter(capacity: 64 + mappings.count * 192)
        writer.beginObject()
        writer.name("id_mappings")
        writer.beginArray()
        for mapping in mappings { mapping.write(to: &writer) }
        writer.endArray()
        writer.endObject()
        return Answer(.ok, json: writer.bytes)
    }
}
