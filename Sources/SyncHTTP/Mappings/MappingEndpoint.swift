import HTTPTypes
import SyncModel
import SyncStore

/// The server ids of the caller's client ids: `POST /v1/id-mappings/lookup` and `GET /v1/id-mappings`.
struct MappingEndpoint: Sendable {
    /// Mappings on a page by default.
    static let defaultLimit = 500

    let store: Store
    let bodies: BodyReader

    /// Responds with the caller's mappings in the order of change, a page at a time.
    func list(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["since", "status", "limit"])
        let since = try query.text("since")
        let statuses = try query.mappingStatuses("status")
        let limit = try query.limit(default: Self.defaultLimit)
        try await exchange.hold.acquire(ResponseMemoryLease.mapping * limit)
        let page = try await BlockingWork.run {
            try await store.mappings.list(
                since: since,
                statuses: statuses,
                limit: limit,
                organization: caller.organization.id,
                user: caller.user
            ).json()
        }
        return Answer(.ok, json: page)
    }

    /// Responds with the mappings of the ids in the request.
    func lookUp(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let limit = bodies.limit
        let lookup = try await bodies.withBody(of: exchange) { body in
            try await BlockingWork.read(body) { body throws(Problem) in try MappingLookup(body: body, limit: limit) }
        }
        try await exchange.hold.acquire(ResponseMemoryLease.mapping * lookup.count)
        let lane = LaneKey(organization: caller.organization.id, user: caller.user)
        var mappings: [IDMapping] = []
        if !lookup.clientIDs.isEmpty {
            mappings = try await store.mappings.lookup(
                lookup.clientIDs,
                entityType: lookup.entityType,
                organization: lane.organization,
                user: lane.user
            )
        }
        if !lookup.numbers.isEmpty, let device = lookup.deviceID, let type = lookup.entityType {
            mappings += try await store.mappings.lookup(lookup.numbers, of: device, entityType: type, lane: lane)
        }
        return Answer(.ok, capacity: 64 + mappings.count * 192) { $0.member("id_mappings", mappings) }
    }
}
