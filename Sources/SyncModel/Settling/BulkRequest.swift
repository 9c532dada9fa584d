public import Foundation
import JSONText

/// An operator's request to settle mutations of all users of an organization.
///
/// `{"ids"?: […], "filter"?: {"status", "entity_type", "device_id", "user_id"}, "dependents"?}`
///
/// One of `ids` and `filter` is required, so that an empty body settles nothing; a mutation must match both if both are
/// given.
public struct BulkRequest: Sendable {
    public enum Move: Sendable {
        case retry
        case discard
    }

    /// The most ids that one request may name.
    public static let maximumIDs = 1_000

    /// Nil for all.
    public private(set) var ids: [UUID]?
    /// `failed` and `conflict`, unless the filter names others that the move allows.
    public private(set) var statuses = MutationStatus.forAPerson
    /// Only mutations of this type.
    public private(set) var entityType: String?
    /// Only mutations of this device.
    public private(set) var deviceID: UUID?
    /// Only mutations of this user.
    public private(set) var userID: UUID?
    /// How dependants are treated; nil leaves a mutation with dependants unchanged.
    public private(set) var dependants: DependantsChoice?

    /// - Parameter limit: the most bytes of a body.
    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to the error.
    public init(body: [UInt8], limit: Int, for move: Move) throws(Problem) {
        let names = ["ids", "filter"] + (move == .discard ? ["dependents"] : [])
        let body = try SettleBody(body, limit: limit, names: names, isOptional: false)
        guard body["ids"] != nil || body["filter"] != nil else {
            let detail = "ids or filter is required; {\"filter\": {}} selects all failed and conflicting mutations"
            throw SettleBody.problem("", Rule.required, detail)
        }
        if let value = body["ids"] { ids = try Self.ids(value) }
        if move == .discard { dependants = try body.choice("dependents") }
        guard let filter = body["filter"] else {
            // ids are specific, so every status that the move allows counts
            statuses = Self.allowed(move)
            return
        }
        guard let members = filter.members else {
            throw SettleBody.problem("/filter", Rule.memberType, "filter must be an object")
        }
        for (name, value) in members { try read(name.string, value, move) }
    }

    private mutating func read(_ name: String, _ value: JSONValue, _ move: Move) throws(Problem) {
        let pointer = "/filter" + JSONPointer.member(name)
        switch name {
        case "status":
            if !value.isNull { statuses = try Self.statuses(value, pointer, move) }
        case "entity_type":
            guard !value.isNull else { return }
            guard let type = value.string, EntityType.isValidName(type) else {
                throw SettleBody.problem(pointer, Rule.entityType, "entity_type must match [a-z][a-z0-9_-]{0,63}")
            }
            entityType = type
        case "device_id": deviceID = try Self.uuid(value, pointer, name)
        case "user_id": userID = try Self.uuid(value, pointer, name)
        default:
            let detail = UnknownMember.detail(name, of: "a filter: status, entity_type, device_id, user_id")
            throw SettleBody.problem(pointer, Rule.unknownMember, detail)
        }
    }

    private static func ids(_ value: JSONValue) throws(Problem) -> [UUID] {
        guard let elements = value.elements else {
            throw SettleBody.problem("/ids", Rule.memberType, "ids must be an array")
        }
        guard (1...maximumIDs).contains(elements.count) else {
            throw SettleBody.problem("/ids", Rule.range, "ids must contain 1 to \(maximumIDs) ids")
        }
        var ids: [UUID] = []
        for (index, element) in elements.enumerated() {
            guard let id = element.uuid else {
                throw SettleBody.problem("/ids/\(index)", Rule.uuid, "a mutation's id must be a UUID")
            }
            ids.append(id)
        }
        return ids
    }

    /// One status, or several in an array.
    private static func statuses(
        _ value: JSONValue,
        _ pointer: String,
        _ move: Move
    ) throws(Problem) -> [MutationStatus] {
        let names = value.elements.map { $0.map(\.string) } ?? [value.string]
        let allowed = allowed(move)
        let statuses = names.compactMap { name in allowed.first { $0.rawValue == name } }
        guard statuses.count == names.count, !statuses.isEmpty else {
            let words = allowed.map(\.rawValue).joined(separator: ", ")
            throw SettleBody.problem(pointer, Rule.memberType, "status must be one or an array of: \(words)")
        }
        return statuses
    }

    private static func allowed(_ move: Move) -> [MutationStatus] {
        switch move {
        case .retry: MutationStatus.forAPerson
        case .discard: DiscardPlanner.statuses
        }
    }

    private static func uuid(_ value: JSONValue, _ pointer: String, _ name: String) throws(Problem) -> UUID? {
        if value.isNull { return nil }
        guard let uuid = value.uuid else {
            throw SettleBody.problem(pointer, Rule.uuid, "\(name) must be a UUID")
        }
        return uuid
    }
}

/// Selects among the mutations that wait for a person.
public struct FailureFilter: Sendable, Hashable {
    /// `failed`, `conflict`; empty for both.
    public var statuses: [MutationStatus] = []
    @Exact public var entityType: String?
    /// The code of the problem.
    @Exact public var errorCode: String?
    /// The HTTP status of the response because of which it waits; 0: no response.
    public var responseStatus: Int16?
    public var user: UUID?

    public init() {}

    /// A hash of the filter, for cursors.
    public var standIn: UInt64 {
        FeedCursor.filter([
            "s" + statuses.map(\.rawValue).sorted().joined(separator: "+"), "t" + (entityType ?? ""),
            "c" + (errorCode ?? ""), "r" + (responseStatus.map(String.init) ?? ""), "u" + (user?.lowercased ?? ""),
        ])
    }

    /// The group that it names, where it names a whole one.
    public var group: FailureGroup.Key? {
        guard let entityType, let errorCode, let responseStatus else { return nil }
        return FailureGroup.Key(entityType: entityType, errorCode: errorCode, responseStatus: responseStatus)
    }
}
