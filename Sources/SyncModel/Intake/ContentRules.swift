import JSONText

/// Rules for a mutation's endpoint and payload.
///
/// For the worker that pushes them and for the person who corrects a failed mutation.
enum ContentRules {
    struct Violation: Error {
        let rule: String
        let detail: String
        /// Where in the payload or endpoint (RFC 6901); empty for all of it.
        var pointer = ""
    }

    /// Reads an endpoint (seed 001, `endpoint_must_be_relative_path`).
    static func endpoint(_ value: JSONValue) throws(Violation) -> Endpoint {
        guard let text = value.string else {
            throw Violation(rule: Rule.endpoint, detail: "endpoint must be a string")
        }
        do throws(Endpoint.Malformed) {
            return try Endpoint(text)
        } catch {
            throw Violation(rule: Rule.endpoint, detail: "endpoint \(error.reason)")
        }
    }

    /// Checks the size and the depth of a payload.
    ///
    /// Seed 001, `payload_must_be_valid_json`.
    static func payload(_ value: JSONValue, limits: IntakeLimits) throws(Violation) -> JSONValue {
        if value.rawCount > limits.payloadBytes {
            let detail = "payload has \(value.rawCount) bytes; at most \(limits.payloadBytes) are allowed"
            throw Violation(rule: Rule.payload, detail: detail)
        }
        if value.depth > limits.payloadDepth {
            let detail = "payload is nested deeper than \(limits.payloadDepth) levels"
            throw Violation(rule: Rule.payload, detail: detail)
        }
        return value
    }

    /// Checks the kind of a payload.
    ///
    /// The payload for the built-in store must be an object. An upstream may take anything, but a delete has no payload
    /// or an object. Relations contain ids.
    static func checkPayload(
        _ payload: JSONValue?,
        of operation: Operation,
        in type: EntityType
    ) throws(Violation) {
        if operation == .delete {
            guard payload.map({ $0.kind == .object || $0.isNull }) ?? true else {
                throw Violation(rule: Rule.payload, detail: "the payload of a delete must be an object or null")
            }
        } else if !type.isForwarded, payload?.kind != .object {
            let detail = "the payload of a \(operation.rawValue) must be an object"
            throw Violation(rule: Rule.payload, detail: detail)
        }
        try checkRelations(payload, in: type)
    }
}
