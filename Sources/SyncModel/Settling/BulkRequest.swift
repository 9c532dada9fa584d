public import FoundationEssentials
import JSONText

/// An operator's request to settle mutations of all users of an organization.
///
/// `{"ids"?: […], "filter"?: {"status", "entity_type", "device_id", "user_id"}, "dependents"?}`
///
/// At least one of `ids` and `filter` is required, because an empty body must not settle anything. If a request has
/// both members, it settles the mutations that match both.
public struct BulkRequest: Sendable {
    public enum Move: Sendable {
        case retry
        case discard
    }

    /// The maximum number of ids in one request.
    public static let maximumIDs = 1_000

    /// The ids of the mutations to settle; nil if the request does not limit the ids.
    public private(set) var ids: [UUID]?
    /// The statuses of the mutations to settle.
    ///
    /// If the filter contains no statuses, these are `failed` and `conflict`. Without a filter, these are all statuses
    /// from which a mutation can be retried or discarded, as requested.
    public private(set) var statuses = MutationStatus.forAPerson
    /// The entity type of the mutations to settle; nil for all types.
    public private(set) var entityType: String?
    /// The device of the mutations to settle; nil for all devices.
    public private(set) var deviceID: UUID?
    /// The user of the mutations to settle; nil for all users.
    public private(set) var userID: UUID?
    /// The treatment of dependants. If nil, mutations with dependants are not settled.
    public private(set) var dependants: DependantsChoice?

    /// - Parameter limit: the maximum number of bytes of a body.
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
            // a request without a filter settles mutations in every status from which the move is possible
            statuses = Self.allowed(move)
            return
        }
        guard filter.kind == .object else {
            throw SettleBody.problem("/filter", Rule.memberType, "filter must be an object")
        }
        try Self.filter(move).readToFirstError(filter, at: "/filter", hasNulls: true, into: &self)
    }

    private static func filter(_ move: Move) -> MemberTable<Self, Never> {
        MemberTable("a filter") {
            BodyMember("status", .statuses(allowed(move)), into: \.statuses).nullable
            BodyMember("entity_type", .entityType, into: \.entityType).nullable
            BodyMember("device_id", .uuid, into: \.deviceID).nullable
            BodyMember("user_id", .uuid, into: \.userID).nullable
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

    private static func allowed(_ move: Move) -> [MutationStatus] {
        switch move {
        case .retry: MutationStatus.forAPerson
        case .discard: DiscardPlanner.statuses
        }
    }
}

/// A filter for the mutations that wait for a person.
public struct FailureFilter: Sendable, Hashable {
    /// The statuses, `failed` or `conflict`; empty for both.
    public var statuses: [MutationStatus] = []
    @Exact public var entityType: String?
    /// The code of the problem.
    @Exact public var errorCode: String?
    /// The HTTP status of the response that made the mutation fail; 0 if there was no response.
    public var responseStatus: Int16?
    public var user: UUID?

    public init() {}

    /// A hash of the filter. Cursors contain this hash.
    public var standIn: UInt64 {
        FeedCursor.filter([
            "s" + statuses.map(\.rawValue).sorted().joined(separator: "+"), "t" + (entityType ?? ""),
            "c" + (errorCode ?? ""), "r" + (responseStatus.map(String.init) ?? ""), "u" + (user?.lowercased ?? ""),
        ])
    }

    /// Whether the entity type is the only condition of the filter.
    public var isOfTypeOnly: Bool {
        statuses.isEmpty && errorCode == nil && responseStatus == nil && user == nil
    }

    /// The failure group that the filter selects; nil if the filter does not select exactly one group.
    public var group: FailureGroup.Key? {
        guard let entityType, let errorCode, let responseStatus else { return nil }
        return FailureGroup.Key(entityType: entityType, errorCode: errorCode, responseStatus: responseStatus)
    }
}
