package import FoundationEssentials
import JSONText
package import SyncModel

/// An operator's request to settle many mutations of an organization in the background, or to evaluate the channels of
/// all entities of a type.
///
/// The JSON is `{"kind", "filter", "dependents"?, "strategy"?, "reason", "per_second"?}`. A preview requires neither a
/// reason nor a strategy.
package struct OperationDraft: Sendable, Hashable {
    /// The maximum number of ids in a filter.
    package static let maximumIDs = 1_000
    /// The maximum number of bytes of a reason.
    package static let reasonBytes = 500
    /// Mutations a second: the default, and the maximum.
    package static let perSecond = (standard: 50, maximum: 1_000)

    package let kind: OperationKind
    package private(set) var filter = FailureFilter()
    /// The ids to which the operation is limited; nil for all mutations.
    package private(set) var ids: [UUID]?
    /// The treatment of dependants in a discard. If it is nil, a mutation with dependants stays unchanged.
    package let dependants: DependantsChoice?
    /// The version that wins in a resolution.
    package let strategy: ResolveRequest.Strategy?
    package let reason: String
    package let perSecond: Int

    /// - Parameters:
    ///   - limit: the maximum number of bytes of a body.
    ///   - isPreview: whether the request is only a preview.
    /// - Throws: `invalid_json`; `invalid_request` with a pointer to the error.
    package init(body: [UInt8], limit: Int, isPreview: Bool) throws(Problem) {
        let names = ["kind", "filter", "dependents", "strategy", "reason", "per_second"]
        let body = try SettleBody(body, limit: limit, names: names, isOptional: false)
        guard let kind: OperationKind = try body.choice("kind") else {
            throw SettleBody.problem("/kind", Rule.required, "kind is required: retry, discard, resolve or evaluate")
        }
        self.kind = kind
        dependants = try body.choice("dependents")
        if dependants != nil, kind != .discard {
            throw SettleBody.problem("/dependents", Rule.unknownMember, "dependents requires the kind discard")
        }
        strategy = try body.choice("strategy")
        if strategy != nil, kind != .resolve {
            throw SettleBody.problem("/strategy", Rule.unknownMember, "strategy requires the kind resolve")
        }
        if kind == .resolve, strategy == nil, !isPreview {
            let detail = "strategy is required to resolve: server_wins or client_wins"
            throw SettleBody.problem("/strategy", Rule.required, detail)
        }
        reason = try Self.reason(body["reason"], isOptional: isPreview)
        perSecond = try Self.perSecond(body["per_second"], default: kind == .evaluate ? Self.perSecond.maximum : nil)
        guard let filter = body["filter"], filter.kind == .object else {
            let detail = "filter is required; {} selects all failed and conflicting mutations of the organization"
            throw SettleBody.problem("/filter", body["filter"] == nil ? Rule.required : Rule.memberType, detail)
        }
        try Self.filterTable.readToFirstError(filter, at: "/filter", into: &self)
        if kind == .evaluate, self.filter.entityType == nil || !self.filter.isOfTypeOnly || ids != nil {
            let detail = "an evaluation of channels requires a filter of one entity_type, without other members"
            throw SettleBody.problem("/filter", Rule.range, detail)
        }
        if kind == .resolve {
            guard self.filter.statuses.allSatisfy({ $0 == .conflict }) else {
                throw SettleBody.problem("/filter/status", Rule.memberType, "only conflicts can be resolved")
            }
            self.filter.statuses = [.conflict]
        }
    }

    /// The filter of a request and of a stored operation.
    package static let filterTable = MemberTable<Self, (filter: FailureFilter, ids: [UUID]?)>("a filter") {
        BodyMember("status", .statuses(MutationStatus.forAPerson), into: \.filter.statuses)
            .shown { $0.filter.statuses.map(\.rawValue) }
        BodyMember("entity_type", .entityType, into: \.filter.entityType).shown(\.filter.entityType)
        BodyMember("response_status", .responseStatus, into: \.filter.responseStatus)
            .shown { $0.filter.responseStatus.map(Int64.init) }
        BodyMember("error_code", .problemCode, into: \.filter.errorCode).shown(\.filter.errorCode)
        BodyMember("user_id", .uuid, into: \.filter.user).shown(\.filter.user)
        BodyMember("ids", MemberKind { ids($0, $1.pointer, &$2) }, into: \.ids).shown(\.ids)
    }

    private static func reason(_ value: JSONValue?, isOptional: Bool) throws(Problem) -> String {
        guard let value else {
            if isOptional { return "" }
            throw SettleBody.problem("/reason", Rule.required, "reason is required for the audit log")
        }
        guard let text = value.string, (1...reasonBytes).contains(text.utf8.count),
            text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control })
        else {
            let detail = "reason must be a text of 1 to \(reasonBytes) bytes without control characters"
            throw SettleBody.problem("/reason", Rule.range, detail)
        }
        return text
    }

    private static func perSecond(_ value: JSONValue?, default fallback: Int?) throws(Problem) -> Int {
        guard let value else { return fallback ?? perSecond.standard }
        guard let number = value.int64, (1...Int64(perSecond.maximum)).contains(number) else {
            throw SettleBody.problem("/per_second", Rule.range, "per_second must be 1 to \(perSecond.maximum)")
        }
        return Int(number)
    }

    private static func ids(_ value: JSONValue, _ pointer: String, _ report: inout MemberReport) -> [UUID]? {
        guard let elements = value.elements, (1...maximumIDs).contains(elements.count) else {
            report.refuse(pointer, Rule.range, "ids must be an array of 1 to \(maximumIDs) ids")
            return nil
        }
        return elements.enumerated().compactMap { index, element in
            let detail = "a mutation's id must be a UUID"
            return report.value(element.uuid, at: "\(pointer)/\(index)", rule: Rule.uuid, detail)
        }
    }
}

extension MemberKind<Int16> {
    /// An HTTP status, or 0 for no status.
    fileprivate static var responseStatus: Self {
        Self("must be an HTTP status, or 0 for none") { value in
            value.int64.flatMap { $0 == 0 || (100...599).contains($0) ? Int16($0) : nil }
        }
    }
}

extension MemberKind<String> {
    fileprivate static var problemCode: Self {
        text("must be the code of a problem", rule: Rule.memberType) { ProblemCode(rawValue: $0) != nil }
    }
}

/// The action that an operation applies to each of its mutations or entities.
package enum OperationKind: String, Sendable, Hashable, CaseIterable {
    case retry
    case discard
    case resolve
    /// Puts the entities of a type into the channels of its templates.
    case evaluate
}

/// The state of an operation.
package enum OperationState: String, Sendable, Hashable, CaseIterable {
    /// A gateway processes the operation, or will do so soon.
    case running
    /// An operator ended the operation. Mutations that it had already settled stay settled.
    case cancelled
    /// The operation has processed all of its mutations.
    case done
    /// The operation ended because too many consecutive mutations could not be settled.
    case failed
}

// MARK: - OperationTally

/// The results of an operation so far, or of one part of it.
package struct OperationTally: Sendable, Hashable {
    /// The number of settled mutations.
    package var done: Int64 = 0
    /// The number of mutations that stay unchanged because they cannot be settled in this way.
    package private(set) var skipped: Int64 = 0
    /// The number of mutations whose settling failed because of an error of the gateway.
    package private(set) var failed: Int64 = 0
    /// The reasons for skipped and failed mutations, by the problem's code.
    package private(set) var reasons: [ByteExactString: Int64] = [:]

    package init() {}

    package mutating func skip(_ code: ProblemCode, _ count: Int64 = 1) {
        guard count > 0 else { return }
        skipped += count
        reasons[code.rawValue, default: 0] += count
    }

    package mutating func fail(_ code: ProblemCode, _ count: Int64) {
        failed += count
        reasons[code.rawValue, default: 0] += count
    }

    package mutating func add(_ other: OperationTally) {
        done += other.done
        skipped += other.skipped
        failed += other.failed
        reasons.merge(other.reasons, uniquingKeysWith: +)
    }

    // MARK: - Stored reasons

    /// Reads the reasons from their stored form, `{"code": count}`.
    package static func reasons(stored json: [UInt8]) -> [ByteExactString: Int64] {
        guard let members = try? JSONTree(parsing: json).root.members else { return [:] }
        return Dictionary(members.map { (ByteExactString($0.name.string), $0.value.int64 ?? 0) }) { $1 }
    }

    /// Returns the stored form of reasons.
    package static func json(of reasons: [ByteExactString: Int64]) -> [UInt8] {
        JSONWriter.object { writer in
            for (code, count) in reasons.sorted(by: { $0.key < $1.key }) {
                writer.name(code)
                writer.int(count)
            }
        }
    }
}

/// The pace of an operation. Its rate never exceeds the limit, not even to make up for a delay.
package struct OperationPace: Sendable {
    /// The maximum number of mutations that one step reads.
    package static let batch = 50

    private let perSecond: Double

    package init(perSecond: Int) {
        self.perSecond = Double(max(1, perSecond))
    }

    /// The maximum number of mutations of the next step: the number for one second, but at most ``batch``.
    package var limit: Int { max(1, min(Int(perSecond), Self.batch)) }

    /// Returns the seconds to pause after a step.
    ///
    /// - Parameters:
    ///   - count: the number of mutations that the step settled.
    ///   - seconds: the duration of the step.
    package func pause(after count: Int, in seconds: Double) -> Double {
        max(0, Double(count) / perSecond - seconds)
    }
}
