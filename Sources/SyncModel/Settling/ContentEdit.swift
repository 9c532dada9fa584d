public import JSONText

/// What a person changes about a mutation before it runs again; what is nil stays as it was.
public struct ContentEdit: Sendable {
    /// Replaces the payload; within the limits of a push.
    public let payload: JSONValue?
    /// Replaces the endpoint.
    public let endpoint: Endpoint?

    /// No change.
    public init() {
        payload = nil
        endpoint = nil
    }

    /// Whether nothing is changed.
    public var isEmpty: Bool { payload == nil && endpoint == nil }

    /// Checks the members of a request by the rules of a push.
    ///
    /// - Throws: `validation_failed` with everything that is wrong.
    init(payload: JSONValue?, endpoint: JSONValue?, limits: IntakeLimits) throws(Problem) {
        var problems: [ProblemDetail] = []
        var checked: (payload: JSONValue?, endpoint: Endpoint?)
        do throws(ContentRules.Violation) {
            if let payload { checked.payload = try ContentRules.payload(payload, limits: limits) }
        } catch {
            problems.append(ProblemDetail(pointer: "/payload", rule: error.rule, detail: error.detail))
        }
        do throws(ContentRules.Violation) {
            if let endpoint { checked.endpoint = try ContentRules.endpoint(endpoint) }
        } catch {
            problems.append(ProblemDetail(pointer: "/endpoint", rule: error.rule, detail: error.detail))
        }
        if let first = problems.first { throw Problem(.validationFailed, first.detail, errors: problems) }
        self.payload = checked.payload
        self.endpoint = checked.endpoint
    }
}
