package import JSONText

/// The members of the body of a request that settles mutations.
///
/// The body is a small object without unknown or duplicate members. Requests read the members in sequence and stop at
/// the first error, because the meaning of one member depends on other members. A ``MemberTable`` is not used, because
/// it would report the errors of all members.
package struct SettleBody {
    private var members: [(name: String, value: JSONValue)] = []

    /// - Parameters:
    ///   - limit: the maximum number of bytes of a body.
    ///   - names: the members that the body may have.
    ///   - isOptional: whether an empty body is read as an empty object.
    /// - Throws: `invalid_json`; `invalid_request` with a pointer to the error; `validation_failed` for a payload that
    ///   cannot be stored, as in a push.
    package init(_ body: [UInt8], limit: Int, names: [String], isOptional: Bool) throws(Problem) {
        if body.isEmpty, isOptional { return }
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first {
            guard defect.pointer.hasPrefix("/payload/") || defect.pointer == "/payload",
                defect.kind != .duplicateMember || defect.pointer != "/payload"
            else { throw Problem(defect) }
            throw Problem(.validationFailed, pointer: defect.pointer, rule: Rule.payload, defect.explanation)
        }
        for (name, value) in members {
            let name = name.string
            guard names.contains(name) else {
                let known = names.joined(separator: ", ")
                let detail =
                    "'\(UnknownMember.shown(name))' is an unknown member; known: \(known)"
                    + UnknownMember.hint(name, known: names)
                throw Self.problem(JSONPointer.member(name), Rule.unknownMember, detail)
            }
            self.members.append((name, value))
        }
    }

    /// The value of a member; nil if the member is absent or null.
    package subscript(name: String) -> JSONValue? {
        members.first { $0.name == name && !$0.value.isNull }?.value
    }

    /// The value of a member with a fixed set of values; nil if the member is absent or null.
    package func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String) throws(Problem) -> Choice? {
        guard let value = self[name] else { return nil }
        guard let choice = value.string.flatMap(Choice.init(rawValue:)) else {
            let words = Choice.allCases.map(\.rawValue).joined(separator: " or ")
            throw Self.problem("/\(name)", Rule.memberType, "\(name) must be \(words)")
        }
        return choice
    }

    package static func problem(_ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}

extension IntakeLimits {
    /// The maximum size of a body that settles one mutation, in bytes. This is the limit of a payload, plus 16,384
    /// bytes for the other members.
    public var settlingBytes: Int { payloadBytes + 16_384 }
}

/// `POST /v1/mutations/{id}/retry`: `{"payload"?, "endpoint"?, "force"?}`.
public struct RetryRequest: Sendable {
    public let edit: ContentEdit
    /// Whether to apply the edit even if the last attempt may have taken effect.
    public let isForced: Bool

    /// A retry without changes.
    public init() {
        edit = ContentEdit()
        isForced = false
    }

    /// Reads a body, which may be empty.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` for content that a push would not accept.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let names = ["payload", "endpoint", "force"]
        let body = try SettleBody(body, limit: limits.settlingBytes, names: names, isOptional: true)
        guard let force = body["force"] else {
            isForced = false
            edit = try ContentEdit(payload: body["payload"], endpoint: body["endpoint"], limits: limits)
            return
        }
        guard let isForced = force.bool else {
            throw SettleBody.problem("/force", Rule.memberType, "force must be true or false")
        }
        self.isForced = isForced
        edit = try ContentEdit(payload: body["payload"], endpoint: body["endpoint"], limits: limits)
    }
}

/// `POST /v1/mutations/{id}/discard`: `{"dependents": "discard" | "keep"}`.
public struct DiscardRequest: Sendable {
    /// The treatment of dependants; nil if the request does not contain it.
    public let dependants: DependantsChoice?

    public init(dependants: DependantsChoice? = nil) {
        self.dependants = dependants
    }

    /// Reads a body, which may be empty.
    ///
    /// - Throws: `invalid_json`, `invalid_request`.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let body = try SettleBody(body, limit: limits.settlingBytes, names: ["dependents"], isOptional: true)
        dependants = try body.choice("dependents")
    }
}

/// The body of `POST /v1/mutations/{id}/resolve`.
///
/// `{"strategy": "server_wins" | "client_wins", "payload"?}`
public struct ResolveRequest: Sendable {
    /// The strategies from which a person may choose.
    public enum Strategy: String, Sendable, Hashable, CaseIterable {
        case serverWins = "server_wins"
        case clientWins = "client_wins"
    }

    public let strategy: Strategy
    /// The edited content; permitted only with ``Strategy/clientWins``.
    public let edit: ContentEdit

    /// Creates a request without an edit.
    public init(_ strategy: Strategy) {
        self.strategy = strategy
        edit = ContentEdit()
    }

    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` for a payload that a push would not accept, or
    ///   that has no effect.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let names = ["strategy", "payload"]
        let body = try SettleBody(body, limit: limits.settlingBytes, names: names, isOptional: false)
        guard let strategy: Strategy = try body.choice("strategy") else {
            let detail = "strategy is required: server_wins or client_wins"
            throw SettleBody.problem("/strategy", Rule.required, detail)
        }
        if strategy == .serverWins, body["payload"] != nil {
            let detail = "payload has no effect with server_wins; omit it, or use client_wins"
            throw Problem(.validationFailed, pointer: "/payload", rule: Rule.unknownMember, detail)
        }
        self.strategy = strategy
        edit = try ContentEdit(payload: body["payload"], endpoint: nil, limits: limits)
    }
}
