/// The body of `POST /v1/mutations/{id}/resolve`.
///
/// `{"strategy": "server_wins" | "client_wins", "payload"?}`
public struct ResolveRequest: Sendable {
    /// The strategies that a person may choose from.
    public enum Strategy: String, Sendable, Hashable, CaseIterable {
        case serverWins = "server_wins"
        case clientWins = "client_wins"
    }

    public let strategy: Strategy
    /// The content with which the client wins; with ``Strategy/clientWins`` only.
    public let edit: ContentEdit

    /// Without an edit.
    public init(_ strategy: Strategy) {
        self.strategy = strategy
        edit = ContentEdit()
    }

    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` for a payload that a push would not take, and
    ///   for one that has no effect.
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
