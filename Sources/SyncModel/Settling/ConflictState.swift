public import FoundationEssentials
public import JSONText

/// The entity with which a mutation is in conflict, as stored in the conflict's problem.
struct ConflictState {
    /// The entity's permanent id; nil if the conflict does not contain the id.
    let id: ServerID?
    /// The entity's version in Sluice; nil if the gateway received the entity only in the upstream's answer.
    let version: Int64?
    /// The entity's version in the feed when the request was sent; nil if the conflict does not contain this version.
    ///
    /// The value is 0 if the feed did not contain the entity.
    let feedVersion: Int64?
    /// The upstream's ETag.
    let etag: String?
    let isDeleted: Bool
    /// The document as JSON; nil if the document is unknown or the entity was deleted.
    let document: [UInt8]?

    /// Reads `current` of a `conflict` problem; nil if the problem has no `current`.
    init?(error: [UInt8]?) {
        guard let error, let root = try? JSONTree(parsing: error, limits: .widest).root,
            let current = root["current"], current.kind == .object
        else { return nil }
        id = current["id"].flatMap(ServerID.init(json:))
        version = current["version"]?.int64
        feedVersion = current["feed_version"]?.int64
        etag = current["etag"]?.string
        let isDeleted = current["deleted"]?.bool ?? false
        self.isDeleted = isDeleted
        document = current["document"].flatMap { $0.isNull || isDeleted ? nil : Array($0.raw) }
    }

    /// The document, if the upstream's answer contained it.
    ///
    /// A document from the feed is not returned, because it may be older than the upstream's document.
    var documentOfConflict: [UInt8]? { version == nil ? document : nil }

    /// Returns the permanent id of a mutation's entity; nil if the id is unknown.
    ///
    /// For a create, the stored conflict identifies the entity. The mutation's stored id may identify another entity,
    /// because an earlier attempt may have been in conflict with that entity. The body of the answer is not read,
    /// because its `id` may be the id of an error.
    static func entity(of record: MutationRecord, _ current: ConflictState?) -> ServerID? {
        let known = record.entity.serverID
        guard record.operation == .create else { return known ?? current?.id }
        return current?.id ?? existingID(in: record.error) ?? known
    }

    /// The id of the existing entity in the problem of a create's conflict.
    private static func existingID(in error: [UInt8]?) -> ServerID? {
        guard let error, let root = try? JSONTree(parsing: error, limits: .widest).root else { return nil }
        return root["existing_id"].flatMap(ServerID.init(json:))
    }
}

extension SettleSubject {
    /// The entity with which the mutation is in conflict; nil if the entity is unknown.
    public var conflictingEntity: EntityKey? {
        let id = ConflictState.entity(of: record, ConflictState(error: record.error))
        return id.map { EntityKey(type: record.entity.type, id: $0.text) }
    }

    /// Whether the entity was written after the upstream returned the conflicting state.
    ///
    /// Nil if the conflict does not contain the feed's version. The method compares versions, because a comparison of
    /// times would not be reliable: the gateway may record another lane's write before this response arrives, and
    /// gateways have different clocks.
    ///
    /// - Parameters:
    ///   - stored: the current entity. If the user must not see this entity, it is treated as missing.
    ///   - user: the mutation's user.
    public func isOvertaken(by stored: EntityState, for user: UUID) -> Bool? {
        guard stored.isVisible(to: user, type.visibility, access) else { return false }
        return ConflictState(error: record.error)?.feedVersion.map { $0 != stored.version }
    }
}

/// A person's changes to a mutation before it runs again.
///
/// If a part is nil, this part of the mutation stays unchanged.
public struct ContentEdit: Sendable {
    /// The new payload, within the limits of a push.
    public let payload: JSONValue?
    public let endpoint: Endpoint?

    public init() {
        payload = nil
        endpoint = nil
    }

    public var isEmpty: Bool { payload == nil && endpoint == nil }

    /// Checks the members of a request by the same rules as for a push.
    ///
    /// - Throws: `validation_failed` with all errors.
    init(payload: JSONValue?, endpoint: JSONValue?, limits: IntakeLimits) throws(Problem) {
        var problems: [ProblemDetail] = []
        var checked: (payload: JSONValue?, endpoint: Endpoint?)
        do throws(ContentRules.Violation) {
            if let payload { checked.payload = try ContentRules.payload(payload, limits: limits) }
        } catch {
            problems.append(ProblemDetail(pointer: "/payload", rule: error.rule, detail: error.detail))
        }
        do throws(ContentRules.Violation) {
            if let endpoint { checked.endpoint = try ContentRules.endpoint(endpoint) }
        } catch {
            problems.append(ProblemDetail(pointer: "/endpoint", rule: error.rule, detail: error.detail))
        }
        if let first = problems.first { throw Problem(.validationFailed, first.detail, errors: problems) }
        self.payload = checked.payload
        self.endpoint = checked.endpoint
    }
}

/// A mutation's content for its next run.
///
/// The content is the stored content with a person's changes.
public struct SettledContent: Sendable {
    /// The endpoint; nil for a mutation without an endpoint.
    public let endpoint: Endpoint?
    /// The payload; nil for a mutation without a payload.
    public let payload: JSONValue?
    private let entity: EntityName
    /// The local ids (entities' numbers on one device) in the payload's relations.
    let localReferences: [LocalReference]

    /// Creates the content. Stored content is not validated again, because it was validated in the push.
    public init(_ subject: SettleSubject, _ edit: ContentEdit) {
        endpoint = edit.endpoint ?? subject.endpoint
        payload = edit.payload ?? subject.payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        entity = subject.record.entity
        localReferences = subject.type.localReferences(in: payload, on: subject.record.deviceID)
    }

    /// The local ids in the payload's relations, and the entity's own local id, without duplicates.
    public var localIDs: [LocalID] {
        Set(localReferences.map(\.id) + [entity.localID].compactMap { $0 }).sorted()
    }

    /// The UUIDs that may be client ids, in the order of their appearance, without duplicates.
    ///
    /// These are the UUIDs in the endpoint and the payload, the UUIDs that represent the payload's local ids, and the
    /// entity's client id.
    public var identifiers: [UUID] {
        var seen: Set<UUID> = []
        let named = (endpoint?.uuids ?? []) + (payload?.uuids ?? []) + localReferences.map(\.clientID)
        return (named + [entity.clientID].compactMap { $0 }).filter { seen.insert($0).inserted }
    }
}
