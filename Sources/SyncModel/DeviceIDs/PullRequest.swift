public import JSONText

/// The body of a pull, which may be missing.
///
/// `{"since":CURSOR|null,"limit":500,"wait":0,"next_local_ids":{"task":2}}`
public struct PullRequest: Sendable {
    /// The maximum number of changes on a page if the caller specifies no limit.
    public static let defaultLimit = 500
    /// The maximum value of `wait`, in seconds.
    public static let longestWait: Int64 = 60
    /// The maximum number of types with counters in one pull.
    public static let typeLimit = 1_000

    /// The `next` of the previous page; nil to start at the beginning of the feed.
    public private(set) var since: String?
    /// The maximum number of changes on the page, from 1 to 1,000.
    public private(set) var limit = Self.defaultLimit
    /// The time to wait for a change, in seconds.
    public private(set) var wait = 0
    /// The channels to which the pull is restricted; nil for all entities that are visible to the user.
    public private(set) var channels: [String]?
    /// Whether a pull restricted to channels includes the entities without channels, and the entities in the user's own
    /// channel.
    public private(set) var includesOthers = false
    /// The cursor `next` of the newest page that the device has; nil if this cursor is ``since``.
    ///
    /// This cursor confirms the local ids that the gateway has assigned on that page. The pages of all filters assign
    /// local ids from the same counters. Therefore a device with several cursors sends the cursor of the newest page
    /// that it has, even if that page has another filter than this pull.
    public private(set) var received: String?
    /// The local id that the device would assign to its next new entity, by entity type.
    ///
    /// A value is nil if the device does not have this counter, or has no local id left.
    public private(set) var nextLocalIDs: [ByteExactString: Int64?] = [:]

    /// Reads a body, which may be empty.
    ///
    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to the error.
    public init(body: [UInt8], limit: Int) throws(Problem) {
        if body.isEmpty { return }
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        var hasReceived = false
        if let defect = tree.defects.first { throw Problem(defect) }
        for (name, value) in members {
            if name.equals("since") {
                since = try Self.cursor(value, "since")
            } else if name.equals("limit") {
                self.limit = try Self.integer(value, "limit", in: 1...1_000)
            } else if name.equals("wait") {
                wait = try Self.integer(value, "wait", in: 0...Self.longestWait)
            } else if name.equals("next_local_ids") {
                nextLocalIDs = try Self.nextLocalIDs(value)
            } else if name.equals("channels") {
                channels = try Self.channels(value)
            } else if name.equals("others") {
                guard let flag = value.bool else {
                    throw Self.problem("others", Rule.memberType, "others must be true or false")
                }
                includesOthers = flag
            } else if name.equals("received") {
                received = try Self.cursor(value, "received")
                hasReceived = true
            } else {
                let members = "a pull: since, limit, wait, next_local_ids, channels, others, received"
                throw Self.problem(name.string, Rule.unknownMember, UnknownMember.detail(name.string, of: members))
            }
        }
        if channels != nil, !hasReceived {
            let detail = "received is required with channels: the cursor next of the device's newest page, or null"
            throw Self.problem("received", Rule.required, detail)
        }
    }

    private static func channels(_ value: JSONValue) throws(Problem) -> [String] {
        let names = value.elements?.prefix(ChannelName.limitOfRequest + 1).map(\.string) ?? []
        let valid = names.compactMap(\.self).filter(ChannelName.isValid)
        guard valid.count == names.count, (1...ChannelName.limitOfRequest).contains(valid.count) else {
            let detail = "channels must be an array of 1 to \(ChannelName.limitOfRequest) names of channels"
            throw problem("channels", Rule.range, detail)
        }
        return valid
    }

    /// The JSON Pointer to a type's counter in the body (RFC 6901).
    public static func pointer(toCounterOf type: String) -> String {
        JSONPointer("/next_local_ids").appending(member: type).text
    }

    private static func cursor(_ value: JSONValue, _ name: String) throws(Problem) -> String? {
        if value.isNull { return nil }
        guard let text = value.string else {
            throw problem(name, Rule.memberType, "\(name) must be a cursor (a string) or null")
        }
        return text
    }

    private static func integer(
        _ value: JSONValue,
        _ name: String,
        in range: ClosedRange<Int64>
    ) throws(Problem) -> Int {
        guard let number = value.int64, range.contains(number) else {
            let detail = "\(name) must be an integer from \(range.lowerBound) to \(range.upperBound)"
            throw problem(name, Rule.range, detail)
        }
        return Int(number)
    }

    private static func nextLocalIDs(_ value: JSONValue) throws(Problem) -> [ByteExactString: Int64?] {
        guard let members = value.members else {
            throw problem("next_local_ids", Rule.memberType, "next_local_ids must be an object of types and numbers")
        }
        var counters: [ByteExactString: Int64?] = [:]
        for (name, value) in members {
            let type = name.string
            guard EntityType.isValidName(type) else {
                throw counter(type, Rule.entityType, "an entity type's name matches [a-z][a-z0-9_-]{0,63}")
            }
            guard let number = value.int64 ?? (value.isNull ? .some(0) : nil) else {
                let detail = "the next local id of a type must be a 64-bit integer or null"
                throw counter(type, Rule.range, detail)
            }
            guard counters.count < typeLimit else {
                let detail = "next_local_ids may contain at most \(typeLimit) types"
                throw problem("next_local_ids", Rule.range, detail)
            }
            counters[type] = .some(value.isNull ? nil : number)
        }
        return counters
    }

    private static func counter(_ type: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer(toCounterOf: type), rule: rule, detail)
    }

    private static func problem(_ member: String, _ rule: String, _ detail: String) -> Problem {
        let pointer = JSONPointer().appending(member: member).text
        return Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}

/// A member of a type's documents that contains the id of another entity, or an array of ids.
///
/// See specification 002 (docs/spec), "Object Relations and IDs". Local ids in relations are the only ids in documents
/// that the gateway translates for a device.
public struct Relation: Sendable, Hashable {
    public static let limit = 100
    public static let maximumNameBytes = 200

    /// A top-level member of the document.
    @Exact public private(set) var member: String
    /// The type of the entities to which the relation refers.
    @Exact public private(set) var entityType: String
    /// The id space of ``entityType``; nil while this type is not registered.
    public var idSpace: IDSpace?
    /// The action if an entity to which the relation refers is deleted.
    public var onDelete: DeletionRule

    /// Whether a relation may have this name.
    ///
    /// A valid name has 1 to ``maximumNameBytes`` bytes and no control characters.
    public static func isValidMember(_ name: String) -> Bool {
        let bytes = name.utf8
        return !bytes.isEmpty && bytes.count <= maximumNameBytes && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }

    public init(member: String, entityType: String, idSpace: IDSpace?, onDelete: DeletionRule = .restrict) {
        self.member = member
        self.entityType = entityType
        self.idSpace = idSpace
        self.onDelete = onDelete
    }
}

extension EntityType {
    /// Reads the stored form, such as `{"folderId":"folder"}`, which was validated before it was stored.
    ///
    /// - Parameter rules: the rules of relations that do not have the default rule (`restrict`), such as
    ///   `{"folderId":"cascade"}`.
    public static func relations(stored json: JSONValue, rules: JSONValue? = nil) -> [Relation] {
        (json.members?.map { $0 } ?? []).compactMap { name, value in
            let member = name.string
            let rule = rules?.members?.first { $0.name.equals(member) }?.value.string
            return value.string.map {
                Relation(
                    member: member,
                    entityType: $0,
                    idSpace: nil,
                    onDelete: rule.flatMap(DeletionRule.init(rawValue:)) ?? .restrict
                )
            }
        }
    }

    public var storedRelations: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        for relation in relations {
            writer.name(relation.member)
            writer.string(relation.entityType)
        }
        writer.endObject()
        return writer.bytes
    }
}

extension JSONValue {
    /// The values in some relations of a document, in document order.
    ///
    /// An array gives one value for each element. Nulls are omitted.
    public func values(in relations: [Relation]) -> [RelatedValue] {
        guard !relations.isEmpty, let members else { return [] }
        var found: [RelatedValue] = []
        for (name, value) in members {
            guard let relation = relations.first(where: { name.equals($0.member) }) else { continue }
            if let elements = value.elements {
                for (place, element) in elements.enumerated() where !element.isNull {
                    found.append(RelatedValue(relation: relation, value: element, place: place))
                }
            } else if !value.isNull {
                found.append(RelatedValue(relation: relation, value: value, place: nil))
            }
        }
        return found
    }
}

/// One value in a relation.
public struct RelatedValue: Sendable {
    public let relation: Relation
    /// The value, which is an id or, in an invalid payload, another value. The value is never null.
    public let value: JSONValue
    /// The value's index in the array; nil if the relation contains a single value.
    public let place: Int?

    /// The JSON Pointer to the value in the document (RFC 6901).
    public var pointer: String {
        let member = JSONPointer().appending(member: relation.member).text
        return place.map { "\(member)/\($0)" } ?? member
    }
}
