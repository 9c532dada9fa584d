import FoundationEssentials
import HTTPTypes
package import JSONText
package import SyncModel
package import SyncStore

/// The server ids of the caller's client ids: `POST /v1/id-mappings/lookup` and `GET /v1/id-mappings`.
struct MappingEndpoint: Sendable {
    /// The default number of mappings on a page.
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

/// The body of a look-up: `{"client_ids":[…],"entity_type"?,"device_id"?}`.
///
/// A client id that is a local id (an integer) requires the device's id and the entity type.
struct MappingLookup: Sendable {
    /// The maximum number of ids in one look-up.
    static let maximumIDs = 1_000

    private(set) var clientIDs: [UUID] = []
    /// The client ids that are numbers.
    private(set) var numbers: [Int64] = []
    private(set) var entityType: String?
    private(set) var deviceID: UUID?

    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to the defect.
    init(body: [UInt8], limit: Int) throws(Problem) {
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first { throw Problem(defect) }
        var isGiven = false
        for (name, value) in members {
            if name.equals("client_ids") {
                isGiven = true
                try readIDs(value)
            } else if name.equals("device_id") {
                deviceID = try Self.deviceID(value)
            } else if name.equals("entity_type") {
                entityType = try Self.entityType(value)
            } else {
                let pointer = JSONPointer().appending(member: name.string).text
                let what = "a look-up: client_ids, entity_type, device_id"
                let detail = UnknownMember.detail(name.string, of: what)
                throw Self.problem(pointer, Rule.unknownMember, detail)
            }
        }
        guard isGiven else { throw Self.problem("/client_ids", Rule.required, "client_ids is required") }
        guard !numbers.isEmpty else { return }
        let detail = "required because a number is an id of one device and one type"
        if deviceID == nil { throw Self.problem("/device_id", Rule.required, detail) }
        if entityType == nil { throw Self.problem("/entity_type", Rule.required, detail) }
    }

    var count: Int { clientIDs.count + numbers.count }

    private mutating func readIDs(_ value: JSONValue) throws(Problem) {
        guard let elements = value.elements else {
            throw Self.problem("/client_ids", Rule.memberType, "client_ids must be an array")
        }
        guard elements.count <= Self.maximumIDs else {
            throw Self.problem("/client_ids", Rule.range, "client_ids may contain at most \(Self.maximumIDs) ids")
        }
        for (index, element) in elements.enumerated() {
            if let id = element.uuid {
                clientIDs.append(id)
            } else if let number = element.int64 {
                numbers.append(number)
            } else {
                let detail = "a client id must be a UUID or a 64-bit integer assigned by the device"
                throw Self.problem("/client_ids/\(index)", Rule.clientID, detail)
            }
        }
    }

    private static func deviceID(_ value: JSONValue) throws(Problem) -> UUID? {
        if value.isNull { return nil }
        guard let id = value.uuid else { throw problem("/device_id", Rule.uuid, "device_id must be a UUID") }
        return id
    }

    private static func entityType(_ value: JSONValue) throws(Problem) -> String? {
        if value.isNull { return nil }
        guard let name = value.string, EntityType.isValidName(name) else {
            throw problem("/entity_type", Rule.entityType, "entity_type must match [a-z][a-z0-9_-]{0,63}")
        }
        return name
    }

    private static func problem(_ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}

extension IDMapping: AnswerBody {
    package var expectedBytes: Int { 192 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("entity_type", entityType)
        switch client {
        case .id(let id): writer.member("client_id", id)
        case .number(let number, _): writer.member("client_id", number)
        }
        writer.member("server_id", serverID)
        writer.member("status", status.rawValue)
    }
}

extension MappingPage: AnswerBody {
    package var expectedBytes: Int { 128 + mappings.count * 192 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id_mappings", mappings)
        writer.member("next", next.text)
        writer.member("up_to_date", isUpToDate)
    }
}
