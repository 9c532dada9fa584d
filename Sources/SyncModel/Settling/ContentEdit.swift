public import JSONText

/// A person's changes to a mutation before it runs again.
///
/// Nil leaves a part as it was.
public struct ContentEdit: Sendable {
    /// Within the limits of a push.
    public let payload: JSONValue?
    public let endpoint: Endpoint?

    public init() {
        payload = nil
        endpoint = nil
    }

    public var isEmpty: Bool { payload == nil && endpoint == nil }

    /// Checks the members of a request by the rules of a push.
    ///
    /// - Throws: `validation_failed` with every error.
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
