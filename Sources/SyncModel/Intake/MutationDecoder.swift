package import Foundation
import JSONText

/// One entry of a push: a valid mutation, or what is wrong with it.
package struct PushEntry: Sendable {
    /// Place in the request.
    package let index: Int
    // What could be read of the entry's identity, also when it is not valid.
    /// The mutation's id, when it is a UUID.
    package let id: UUID?
    /// The idempotency key, when it is a UUID.
    package let idempotencyKey: UUID?
    /// The sequence number, when it is an integer of 1 or more.
    package let sequenceNumber: Int64?
    /// What an entry that is not valid would have created: those who refer to it are refused with it.
    let attemptedCreate: (entityType: String, clientID: UUID)?
    /// What the entry says, valid or not; nil where that cannot be told. One that is refused may repeat a mutation that
    /// was taken under other limits or rules (product rule 5).
    package let said: Mutation?
    /// What refuses it: `validation_failed` with every error; nil when the entry is valid.
    package let refusal: Problem?

    /// The mutation, when the entry is valid.
    package var mutation: Mutation? { refusal == nil ? said : nil }
}

/// Reads one entry of a push and checks everything that needs nothing but the entry itself. Reports all that is wrong,
/// not just the first.
struct MutationDecoder {
    private let index: Int
    private let device: UUID
    private let limits: IntakeLimits
    private var problems: [ProblemDetail] = []
    /// Whether what is read of the content is all of it, be it valid or not.
    private var isContentRead = true

    private var id: UUID?
    private var idempotencyKey: UUID?
    private var sequenceNumber: Int64?
    private var operation: Operation?
    private var entityType: String?
    private var localID: UUID?
    private var localNumber: Int64?
    private var serverID: ServerID?
    private var endpoint: Endpoint?
    private var payload: JSONValue?
    private var headers: JSONValue?
    private var dependencyIDs: [UUID] = []
    private var priority: Int16?
    private var maxAttempts: Int16 = 10
    private var conflictResolution: ConflictResolution?
    private var baseVersion: Int64?
    private var createdAt: Timestamp?

    private init(index: Int, device: UUID, limits: IntakeLimits) {
        self.index = index
        self.device = device
        self.limits = limits
    }

    static func decode(
        _ value: JSONValue,
        index: Int,
        device: UUID,
        limits: IntakeLimits,
        hasDefects: Bool
    ) -> PushEntry {
        var decoder = MutationDecoder(index: index, device: device, limits: limits)
        decoder.read(value)
        decoder.nameLocalID()
        if hasDefects { decoder.reportDefects(in: value) }
        return decoder.finish()
    }

    private mutating func read(_ value: JSONValue) {
        guard let members = value.members else {
            return report("", Rule.memberType, "a mutation must be an object")
        }
        var seen = Members()
        for (name, value) in members {
            guard let member = Member(name) else {
                report(
                    JSONPointer.member(name.string),
                    Rule.unknownMember,
                    "'\(name.string)' is not a member of a mutation; see the contract for those that are"
                )
                continue
            }
            seen.insert(member)
            read(member, value)
        }
        for member in Member.required where !seen.contains(member) {
            report("/" + member.name, Rule.required, "\(member.name) is required")
        }
    }

    /// An id of the device's own goes by a UUID from here on.
    private mutating func nameLocalID() {
        guard let localNumber, let entityType else { return }
        localID = LocalID(entityType: entityType, number: localNumber).clientID(on: device)
    }

    private mutating func read(_ member: Member, _ value: JSONValue) {
        let isNull = value.isNull
        if isNull, Member.required.contains(member) {
            return report("/" + member.name, Rule.required, "\(member.name) may not be null")
        }
        if isNull { return }
        switch member {
        case .id: id = uuid(member, value)
        case .idempotencyKey: idempotencyKey = uuid(member, value)
        case .sequenceNumber: sequenceNumber = integer(member, value, in: 1...Int64.max)
        case .operation:
            operation = value.string.flatMap(Operation.init(wire:))
            if operation == nil {
                let names = "create (POST), update (PATCH), replace (PUT) or delete (DELETE)"
                reportUnread("/operation", Rule.operation, "operation must be \(names)")
            }
        case .entityType:
            if let name = value.string, EntityType.isValidName(name) {
                entityType = name
            } else {
                reportUnread("/entity_type", Rule.entityType, "entity_type must match [a-z][a-z0-9_-]{0,63}")
            }
        case .localID:
            localID = value.uuid
            localNumber = value.int64
            if localID == nil, localNumber == nil {
                reportUnread(
                    "/local_id",
                    Rule.clientID,
                    "local_id must be a UUID, or a 64-bit integer in a type with device ids"
                )
            }
        case .serverID:
            serverID = ServerID(json: value)
            if serverID == nil {
                let form = "a string of 1 to \(ServerID.maximumBytes) bytes or a 64-bit integer"
                reportUnread("/server_id", Rule.serverID, "server_id must be \(form), as the server gave it")
            }
        case .endpoint: readEndpoint(value)
        case .payload: readPayload(value)
        case .headers:
            headers = value
            HeaderRules.check(value, pointer: "/mutations/\(index)/headers") { problems.append($0) }
        case .dependencyIDs: readDependencies(value)
        case .priority: priority = integer(member, value, in: 0...1_000).map(Int16.init)
        case .maxAttempts: maxAttempts = integer(member, value, in: 1...100).map(Int16.init) ?? 10
        case .conflictResolution:
            conflictResolution = value.string.flatMap(ConflictResolution.init(rawValue:))
            if conflictResolution == nil {
                let detail = "conflict_resolution must be manual, server_wins or client_wins"
                report("/conflict_resolution", Rule.memberType, detail)
            }
        case .baseVersion:
            baseVersion = integer(member, value, in: 0...Int64.max)
            if baseVersion == nil { isContentRead = false }
        case .createdAt:
            createdAt = value.string.flatMap(Timestamp.init(rfc3339:))
            if createdAt == nil {
                let detail = "created_at must be an RFC 3339 date-time such as 2026-11-20T07:00:00.000Z"
                report("/created_at", Rule.timestamp, detail)
            }
        }
    }

    private mutating func readEndpoint(_ value: JSONValue) {
        do throws(ContentRules.Violation) {
            endpoint = try ContentRules.endpoint(value)
        } catch {
            endpoint = value.string.map(Endpoint.init(refused:))
            if endpoint == nil { isContentRead = false }
            report("/endpoint", error.rule, error.detail)
        }
    }

    private mutating func readPayload(_ value: JSONValue) {
        do throws(ContentRules.Violation) {
            payload = value
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
                let detail = "at most \(limits.dependencies) dependency_ids are taken"
                return report("/dependency_ids", Rule.range, detail)
            }
            guard let uuid = element.uuid else {
                report("/dependency_ids/\(place)", Rule.uuid, "must be a UUID: a mutation's id or a client id")
                continue
            }
            if !dependencyIDs.contains(uuid) { dependencyIDs.append(uuid) }
        }
    }

    private mutating func uuid(_ member: Member, _ value: JSONValue) -> UUID? {
        if let uuid = value.uuid { return uuid }
        report("/" + member.name, Rule.uuid, "\(member.name) must be a UUID")
        return nil
    }

    private mutating func integer(_ member: Member, _ value: JSONValue, in range: ClosedRange<Int64>) -> Int64? {
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

    /// Of what the entry says something cannot be told.
    private mutating func reportUnread(_ pointer: String, _ rule: String, _ detail: String) {
        isContentRead = false
        report(pointer, rule, detail)
    }

    private mutating func report(_ pointer: String, _ rule: String, _ detail: String) {
        problems.append(ProblemDetail(pointer: "/mutations/\(index)" + pointer, rule: rule, detail: detail))
    }

    private func finish() -> PushEntry {
        let said = mutation
        let isValid = problems.isEmpty && createdAt != nil && said != nil
        return PushEntry(
            index: index,
            id: id,
            idempotencyKey: idempotencyKey,
            sequenceNumber: sequenceNumber,
            attemptedCreate: attemptedCreate,
            said: said,
            refusal: isValid ? nil : problem
        )
    }

    private var problem: Problem {
        let first = problems.first?.detail ?? "the mutation is incomplete"
        let more = problems.count > 1 ? " (and \(problems.count - 1) more)" : ""
        return Problem(.validationFailed, first + more, errors: problems)
    }

    private var attemptedCreate: (entityType: String, clientID: UUID)? {
        guard operation == .create, let entityType, let localID else { return nil }
        return (entityType, localID)
    }

    /// What the entry says, valid or not; nil where that cannot be told.
    private var mutation: Mutation? {
        guard isContentRead, let id, let idempotencyKey, let sequenceNumber, let operation, let entityType else {
            return nil
        }
        let fingerprint = Fingerprint(
            operation: operation,
            entityType: entityType,
            localID: localID,
            serverID: serverID,
            endpoint: endpoint,
            payload: payload,
            headers: headers,
            baseVersion: baseVersion
        )
        return Mutation(
            id: id,
            idempotencyKey: idempotencyKey,
            sequenceNumber: sequenceNumber,
            operation: operation,
            entityType: entityType,
            localID: localID,
            localNumber: localNumber,
            serverID: serverID,
            endpoint: endpoint,
            payload: payload,
            headers: headers,
            dependencyIDs: dependencyIDs,
            priority: priority,
            maxAttempts: maxAttempts,
            conflictResolution: conflictResolution,
            baseVersion: baseVersion,
            createdAt: createdAt ?? Timestamp(microseconds: 0),
            fingerprint: fingerprint,
            references: references()
        )
    }

    private func references() -> [UUID] {
        let all = (endpoint?.uuids ?? []) + (payload?.uuids ?? [])
        guard all.count > 1 else { return all }
        var seen = Set<UUID>(minimumCapacity: all.count)
        return all.filter { seen.insert($0).inserted }
    }
}

extension MutationDecoder {
    /// The members that a mutation may have; the raw value is a bit's place in ``Members``.
    private enum Member: UInt32, CaseIterable {
        case id, idempotencyKey, sequenceNumber, operation, entityType, localID, serverID, endpoint, payload, headers
        case dependencyIDs, priority, maxAttempts, conflictResolution, baseVersion, createdAt

        static let required: [Member] = [
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
            case .createdAt: "created_at"
            }
        }

        var name: String { staticName.description }

        /// The members whose names have a certain number of bytes.
        private static let byLength: [[Member]] = {
            var table: [[Member]] = []
            for member in allCases {
                let length = member.staticName.utf8CodeUnitCount
                while table.count <= length { table.append([]) }
                table[length].append(member)
            }
            return table
        }()

        /// Compares bytes, without making a String, with the few names of the same length.
        init?(_ name: JSONName) {
            let text = name.raw.dropFirst().dropLast()
            var candidates: [Member] = []
            if text.contains(0x5c) {
                candidates = Self.allCases
            } else if text.count < Self.byLength.count {
                candidates = Self.byLength[text.count]
            }
            guard let member = candidates.first(where: { name.equals($0.staticName) }) else { return nil }
            self = member
        }
    }

    /// A set of members in one word.
    private struct Members {
        private var bits: UInt32 = 0

        mutating func insert(_ member: Member) { bits |= 1 << member.rawValue }
        func contains(_ member: Member) -> Bool { bits & 1 << member.rawValue != 0 }
    }
}
