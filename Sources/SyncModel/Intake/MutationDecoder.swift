import FoundationEssentials
import JSONText

/// Reads one entry of a push, and checks the rules that can be checked without stored data.
///
/// The decoder reports all errors up to the limit in ``ErrorBounds``, not only the first.
struct MutationDecoder {
    /// The nil UUID (RFC 9562, 5.9).
    private static let noID = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    private let index: Int
    private let device: UUID
    private let limits: IntakeLimits
    private var errors: EntryErrors
    /// Whether the whole content could be read. Content that could be read may nevertheless be invalid.
    private var isContentRead = true

    private var content = MutationContent()

    private init(index: Int, device: UUID, limits: IntakeLimits, errorLimit: Int) {
        errors = EntryErrors(limit: errorLimit)
        self.index = index
        self.device = device
        self.limits = limits
    }

    /// - Parameter errorLimit: the maximum number of errors that the entry's problem lists.
    static func decode(
        _ value: JSONValue,
        index: Int,
        device: UUID,
        limits: IntakeLimits,
        hasDefects: Bool,
        errorLimit: Int = ErrorBounds.perEntry
    ) -> PushEntry {
        var decoder = MutationDecoder(index: index, device: device, limits: limits, errorLimit: errorLimit)
        decoder.read(value)
        if hasDefects { decoder.reportDefects(in: value) }
        return decoder.finish()
    }

    private mutating func read(_ value: JSONValue) {
        guard let members = value.members else {
            return report("", Rule.memberType, "a mutation must be an object")
        }
        var seen = MutationMembers()
        var unknownCount = 0
        members.forEach { name, value in
            guard let member = MutationMember(name) else {
                let isSuggesting = unknownCount < UnknownMember.suggestions
                unknownCount += 1
                return report(
                    JSONPointer.member(name.string),
                    Rule.unknownMember,
                    Self.unknown(name.string, isSuggesting: isSuggesting)
                )
            }
            seen.insert(member)
            read(member, value)
        }
        for member in MutationMember.required where !seen.contains(member) {
            report("/" + member.name, Rule.required, "\(member.name) is required")
        }
    }

    private static func unknown(_ name: String, isSuggesting: Bool) -> String {
        let hint = isSuggesting ? UnknownMember.hint(name, known: MutationMember.names) : ""
        let sentence = UnknownMember.detail(name, of: "a mutation")
        return sentence + (hint.isEmpty ? "; see the contract for the known members" : hint)
    }

    private mutating func read(_ member: MutationMember, _ value: JSONValue) {
        let isNull = value.isNull
        if isNull, MutationMember.required.contains(member) {
            return report("/" + member.name, Rule.required, "\(member.name) must not be null")
        }
        if isNull { return }
        switch member {
        case .id: content.id = uuid(member, value)
        case .idempotencyKey: content.idempotencyKey = uuid(member, value)
        case .sequenceNumber: content.sequenceNumber = integer(member, value, in: 1...Int64.max)
        case .operation:
            content.operation = value.string.flatMap(Operation.init(wire:))
            if content.operation == nil {
                let names = "create (POST), update (PATCH), replace (PUT) or delete (DELETE)"
                reportUnread("/operation", Rule.operation, "operation must be \(names)")
            }
        case .entityType:
            if let name = value.string, EntityType.isValidName(name) {
                content.entityType = name
            } else {
                reportUnread("/entity_type", Rule.entityType, "entity_type must match [a-z][a-z0-9_-]{0,63}")
            }
        case .localID: readLocalID(value)
        case .serverID:
            content.serverID = ServerID(json: value)
            if content.serverID == nil {
                let maximum = ServerID.maximumBytes
                let form = "a string of 1 to \(maximum) bytes, or an integer of at most \(maximum) digits"
                reportUnread("/server_id", Rule.serverID, "server_id must be \(form), as the server gave it")
            }
        case .endpoint: readEndpoint(value)
        case .payload: readPayload(value)
        case .headers:
            content.headers = value
            HeaderRules.check(value) { report("/headers" + $0, $1, $2) }
        case .dependencyIDs: readDependencies(value)
        case .priority: content.priority = integer(member, value, in: 0...1_000).map(Int16.init)
        case .maxAttempts: content.maxAttempts = integer(member, value, in: 1...100).map(Int16.init) ?? 10
        case .conflictResolution:
            content.conflictResolution = value.string.flatMap(ConflictResolution.init(rawValue:))
            if content.conflictResolution == nil {
                let detail = "conflict_resolution must be manual, server_wins or client_wins"
                report("/conflict_resolution", Rule.memberType, detail)
            }
        case .baseVersion:
            content.baseVersion = integer(member, value, in: 0...Int64.max)
            if content.baseVersion == nil { isContentRead = false }
        case .orderKey:
            content.orderKey = value.string.flatMap { OrderKey.isValid($0) ? $0 : nil }
            if content.orderKey == nil {
                let form = "a text of 1 to \(OrderKey.maximumBytes) bytes without control characters"
                reportUnread("/order_key", Rule.orderKey, "order_key must be \(form)")
            }
        case .createdAt:
            content.createdAt = value.timestamp
            if content.createdAt == nil {
                let detail = "created_at must be an RFC 3339 date-time such as 2026-11-20T07:00:00.000Z"
                report("/created_at", Rule.timestamp, detail)
            }
        }
    }

    private mutating func readLocalID(_ value: JSONValue) {
        content.localID = value
        if value.uuid == Self.noID {
            report(
                "/local_id",
                Rule.clientID,
                "local_id must not be the nil UUID, which payloads use for \"no reference\""
            )
        } else if value.uuid == nil, value.int64 == nil {
            let detail = "local_id must be a UUID, or a 64-bit integer in a type with device ids"
            reportUnread("/local_id", Rule.clientID, detail)
        }
    }

    private mutating func readEndpoint(_ value: JSONValue) {
        do throws(ContentRules.Violation) {
            content.endpoint = try ContentRules.endpoint(value)
        } catch {
            content.endpoint = value.string.map(Endpoint.init(refused:))
            if content.endpoint == nil { isContentRead = false }
            report("/endpoint", error.rule, error.detail)
        }
    }

    private mutating func readPayload(_ value: JSONValue) {
        do throws(ContentRules.Violation) {
            content.payload = value
            _ = try ContentRules.payload(value, limits: limits)
        } catch {
            report("/payload", error.rule, error.detail)
        }
    }

    private mutating func readDependencies(_ value: JSONValue) {
        guard let elements = value.elements else {
            return report("/dependency_ids", Rule.memberType, "dependency_ids must be an array of UUIDs")
        }
        for (place, element) in elements.enumerated() {
            guard place < limits.dependencies else {
                let detail = "at most \(limits.dependencies) dependency_ids are allowed"
                return report("/dependency_ids", Rule.range, detail)
            }
            guard let uuid = element.uuid else {
                report("/dependency_ids/\(place)", Rule.uuid, "must be a UUID: a mutation's id or a client id")
                continue
            }
            if !content.dependencyIDs.contains(uuid) { content.dependencyIDs.append(uuid) }
        }
    }

    private mutating func uuid(_ member: MutationMember, _ value: JSONValue) -> UUID? {
        if let uuid = value.uuid { return uuid }
        report("/" + member.name, Rule.uuid, "\(member.name) must be a UUID")
        return nil
    }

    private mutating func integer(_ member: MutationMember, _ value: JSONValue, in range: ClosedRange<Int64>) -> Int64?
    {
        if let number = value.int64, range.contains(number) { return number }
        let bounds =
            range.upperBound == .max ? "\(range.lowerBound) or more" : "\(range.lowerBound) to \(range.upperBound)"
        let rule = member == .sequenceNumber ? Rule.sequence : Rule.range
        report("/" + member.name, rule, "\(member.name) must be an integer, \(bounds)")
        return nil
    }

    private mutating func reportDefects(in value: JSONValue) {
        for defect in value.defects {
            let isPayload = defect.pointer.hasPrefix("/payload")
            let rule =
                isPayload ? Rule.payload : defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
            reportUnread(defect.pointer, rule, defect.explanation)
        }
    }

    /// Reports a part of the entry that cannot be read.
    private mutating func reportUnread(_ pointer: String, _ rule: String, _ detail: String) {
        isContentRead = false
        report(pointer, rule, detail)
    }

    private mutating func report(
        _ pointer: @autoclosure () -> String,
        _ rule: String,
        _ detail: @autoclosure () -> String
    ) {
        let index = index
        errors.append(ProblemDetail(pointer: "/mutations/\(index)" + pointer(), rule: rule, detail: detail()))
    }

    private func finish() -> PushEntry {
        let entity = content.entity(on: device)
        // the content of the entry, even if it breaks rules; nil if a part of the content could not be read
        let mutation = isContentRead ? Mutation(content, entity) : nil
        let isValid = errors.isEmpty && content.createdAt != nil && mutation != nil
        return PushEntry(
            index: index,
            id: content.id,
            idempotencyKey: content.idempotencyKey,
            sequenceNumber: content.sequenceNumber,
            attemptedCreate: content.operation == .create ? entity?.reference : nil,
            content: mutation,
            refusal: isValid ? nil : errors.problem(or: "the mutation is incomplete")
        )
    }
}

// MARK: - MutationMember

/// The members that a mutation may have.
///
/// The raw value is the index of the member's bit in ``MutationMembers``.
enum MutationMember: UInt32, CaseIterable {
    case id, idempotencyKey, sequenceNumber, operation, entityType, localID, serverID, endpoint, payload, headers
    case dependencyIDs, priority, maxAttempts, conflictResolution, baseVersion, orderKey, createdAt

    static let required: [MutationMember] = [
        .id, .idempotencyKey, .sequenceNumber, .operation, .entityType, .createdAt,
    ]

    var staticName: StaticString {
        switch self {
        case .id: "id"
        case .idempotencyKey: "idempotency_key"
        case .sequenceNumber: "sequence_number"
        case .operation: "operation"
        case .entityType: "entity_type"
        case .localID: "local_id"
        case .serverID: "server_id"
        case .endpoint: "endpoint"
        case .payload: "payload"
        case .headers: "headers"
        case .dependencyIDs: "dependency_ids"
        case .priority: "priority"
        case .maxAttempts: "max_attempts"
        case .conflictResolution: "conflict_resolution"
        case .baseVersion: "base_version"
        case .orderKey: "order_key"
        case .createdAt: "created_at"
        }
    }

    var name: String { staticName.description }

    static let names = allCases.map(\.name)

    /// The members by the length of their names.
    private static let byLength: [[MutationMember]] = {
        var members = [[MutationMember]](repeating: [], count: 1 + (allCases.map(\.length).max() ?? 0))
        for member in allCases { members[member.length].append(member) }
        return members
    }()

    private var length: Int { staticName.utf8CodeUnitCount }

    /// Finds a member by its name.
    ///
    /// To avoid the creation of a String, the bytes are compared with the few names of the same length.
    init?(_ name: JSONName) {
        let candidates = name.utf8Count.map { $0 < Self.byLength.count ? Self.byLength[$0] : [] } ?? Self.allCases
        guard let member = candidates.first(where: { name.equals($0.staticName) }) else { return nil }
        self = member
    }
}

/// A set of members as bits of one integer.
struct MutationMembers {
    private var bits: UInt32 = 0

    mutating func insert(_ member: MutationMember) { bits |= 1 << member.rawValue }
    func contains(_ member: MutationMember) -> Bool { bits & 1 << member.rawValue != 0 }
}
