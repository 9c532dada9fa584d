import JSONText

/// `POST /v1/mutations/{id}/retry`: `{"payload"?, "endpoint"?, "force"?}`.
public struct RetryRequest: Sendable {
    public let edit: ContentEdit
    /// Whether to edit although the last attempt may have taken effect.
    public let isForced: Bool

    /// A retry without changes.
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
