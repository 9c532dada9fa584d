import Foundation
import JSONText
import SyncModel

/// The body of a look-up: `{"client_ids":[…],"entity_type"?}`.
struct MappingLookup: Sendable {
    /// The most ids that one look-up may name.
    static let maximumIDs = 1_000

    private(set) var clientIDs: [UUID] = []
    private(set) var entityType: String?

    /// Reads a body.
    ///
    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to what is wrong.
    init(body: [UInt8], limit: Int) throws(Problem) {
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first { throw Problem(defect) }
        for (name, value) in members {
            if name.equals("client_ids") {
                clientIDs = try Self.clientIDs(value)
            } else if name.equals("entity_type") {
                entityType = try Self.entityType(value)
            } else {
                let pointer = JSONPointer().appending(member: name.string).text
                let detail = "'\(name.string)' is not a member of a look-up: client_ids, entity_type"
                throw Self.problem(pointer, Rule.unknownMember, detail)
            }
        }
        if clientIDs.isEmpty { throw Self.problem("/client_ids", Rule.required, "client_ids is required") }
    }

    private static func clientIDs(_ value: JSONValue) throws(Problem) -> [UUID] {
        guard let elements = value.elements else {
            throw problem("/client_ids", Rule.memberType, "client_ids must be an array")
        }
        guard (1...maximumIDs).contains(elements.count) else {
            throw problem("/client_ids", Rule.range, "client_ids must hold 1 to \(maximumIDs) ids")
        }
        var ids: [UUID] = []
        for (index, element) in elements.enumerated() {
            guard let id = element.uuid else {
                throw problem("/client_ids/\(index)", Rule.clientID, "a client id must be a UUID")
            }
            ids.append(id)
        }
        return ids
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
