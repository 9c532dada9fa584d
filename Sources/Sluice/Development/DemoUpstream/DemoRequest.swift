struct DemoRequest: Sendable {
    var method: String
    /// As in the request line, with the query if there is one.
    var target: String
    var idempotencyKey: String?
    /// `If-Match`.
    var ifMatch: String?
    var body: [UInt8] = []

    /// Without the query.
    var path: Substring { target.prefix { $0 != "?" } }

    /// Whether another request asks for the same, whatever its conditions.
    func isRepeated(by other: DemoRequest) -> Bool {
        method == other.method && target == other.target && body == other.body
    }
}
