/// The reason why the gateway refused a request or a write: problem details (RFC 9457).
public struct Problem: Sendable, Hashable, CustomStringConvertible {
    /// A place in the request that contains an error.
    public struct Place: Sendable, Hashable {
        /// A JSON pointer (RFC 6901) into the request.
        public let pointer: String
        /// The violated rule, such as `required` or `range`.
        public let rule: String
        /// A description of the problem.
        public let detail: String
    }

    /// The HTTP status.
    public let status: Int
    /// The error code, such as `validation_failed`, `conflict` or `upstream_rejected`.
    public let code: String
    /// A description of the problem.
    public let detail: String
    /// The places with errors; empty if the gateway reports no places.
    public let errors: [Place]
    /// The complete problem details.
    public let json: JSON

    /// - Parameter json: problem details. If a member is missing, the property for this member is empty.
    public init(status: Int? = nil, _ json: JSON) {
        self.status = status ?? json["status"]?.int64.map { Int($0) } ?? 0
        code = json["code"]?.string ?? ""
        detail = json["detail"]?.string ?? json["title"]?.string ?? ""
        errors = (json["errors"]?.array ?? []).map {
            Place(
                pointer: $0["pointer"]?.string ?? "",
                rule: $0["rule"]?.string ?? "",
                detail: $0["detail"]?.string ?? ""
            )
        }
        self.json = json
    }

    /// Whether the gateway itself reports that the user was erased.
    var isErasure: Bool {
        status == 410 && code == "user_erased" && json["type"]?.string == "urn:sluice:problem:user_erased"
    }

    public var description: String {
        ([code] + [detail].filter { !$0.isEmpty } + errors.map { "\($0.pointer) \($0.rule): \($0.detail)" })
            .joined(separator: "; ")
    }
}
