import JSONText

/// What becomes of the mutations that depend on a discarded one (product rule 4).
public enum DependantsChoice: String, Sendable, Hashable, CaseIterable {
    /// They are discarded too, and what depends on them.
    case discard
    /// They depend on it no more; one that still needs an unresolved client id fails.
    case keep
}

/// `POST /v1/mutations/{id}/retry`: `{"payload"?, "endpoint"?, "force"?}`.
public struct RetryRequest: Sendable {
    /// What is to be different this time.
    public let edit: ContentEdit
    /// Whether an edit is wanted although the last attempt may have taken effect.
    public let isForced: Bool

    /// Once more, as it is.
    public init() {
        edit = ContentEdit()
        isForced = false
    }

    /// Reads a body, which may be empty.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` for content that a push would not take.
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
    /// Nil: there are none, or the caller does not know of them.
    public let dependants: DependantsChoice?

    /// Creates the request.
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

/// `POST /v1/mutations/{id}/resolve`: `{"strategy": "server_wins" | "client_wins", "payload"?}`.
public struct ResolveRequest: Sendable {
    /// The strategies that a person may choose from.
    public enum Strategy: String, Sendable, Hashable, CaseIterable {
        case serverWins = "server_wins"
        case clientWins = "client_wins"
    }

    /// Who has its way.
    public let strategy: Strategy
    /// What the client's way is to be; with ``Strategy/clientWins`` only.
    public let edit: ContentEdit

    /// Reads a body.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` for a payload that a push would not take, and for
    ///   one that has no effect.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let names = ["strategy", "payload"]
        let body = try SettleBody(body, limit: limits.settlingBytes, names: names, isOptional: false)
        guard let strategy: Strategy = try body.choice("strategy") else {
            let detail = "strategy is required: server_wins or client_wins"
            throw SettleBody.problem("/strategy", Rule.required, detail)
        }
        if strategy == .serverWins, body["payload"] != nil {
            let detail = "payload has no effect when the server wins; leave it out, or let the client win"
            throw Problem(.validationFailed, pointer: "/payload", rule: Rule.unknownMember, detail)
        }
        self.strategy = strategy
        edit = try ContentEdit(payload: body["payload"], endpoint: nil, limits: limits)
    }
}

extension IntakeLimits {
    /// The largest body that settles one mutation: a payload, and room around it.
    public var settlingBytes: Int { payloadBytes + 16_384 }
}
