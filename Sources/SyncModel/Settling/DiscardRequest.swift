/// `POST /v1/mutations/{id}/discard`: `{"dependents": "discard" | "keep"}`.
public struct DiscardRequest: Sendable {
    /// Nil: there are no dependants, or the caller does not know of them.
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
