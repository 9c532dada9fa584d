import JSONText

/// The rules for a mutation's endpoint and payload.
///
/// The rules apply to pushed mutations, and to a person's corrections of failed mutations.
enum ContentRules {
    struct Violation: Error {
        let rule: String
        let detail: String
        /// The JSON Pointer to the violation in the payload; empty if the violation concerns the whole value.
        var pointer = ""
    }

    /// Reads an endpoint (specification 001 (docs/spec), `endpoint_must_be_relative_path`).
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
    /// See specification 001 (docs/spec), `payload_must_be_valid_json`.
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
    /// In the built-in store, a payload must be an object. For an upstream, a payload may be any JSON, but the payload
    /// of a delete must be absent or an object. The members of relations must contain ids.
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

/// The rules for a mutation's headers, which are an object of strings.
///
/// Some headers are permitted in every organization, and an operator can permit others for an organization. Headers
/// that the gateway or the connection sets are never permitted.
enum HeaderRules {
    static let maximumCount = 32

    /// The headers that the gateway sets, and the headers that concern a connection.
    private static let refused = HeaderField.hopByHop.union(HeaderField.ours).union(HeaderField.credentials)

    /// Reports every error in the headers.
    ///
    /// - Parameter report: receives the JSON Pointer into the headers, the rule, and the detail.
    static func check(_ headers: JSONValue, report: (_ pointer: String, _ rule: String, _ detail: String) -> Void) {
        guard let members = headers.members else {
            return report("", Rule.memberType, "headers must be an object of strings")
        }
        var names: Set<ByteExactString> = []
        var count = 0
        for (name, value) in members {
            count += 1
            let name = name.string
            let place = JSONPointer.member(name)
            if !HeaderField.isName(name) {
                report(place, Rule.header, "is not a header name (RFC 9110 token)")
            } else if refused.contains(name.lowercased()) {
                report(place, Rule.header, "\(name) is set by the gateway; omit it")
            } else if !names.insert(name.lowercased()).inserted {
                report(place, Rule.header, "\(name) occurs twice; names of headers are case-insensitive")
            }
            guard let text = value.string else {
                report(place, Rule.memberType, "a header's value must be a string")
                continue
            }
            if !HeaderField.isValue(text) {
                let bytes = HeaderField.maximumValueBytes
                report(
                    place,
                    Rule.header,
                    "a header's value must have at most \(bytes) bytes and no control characters"
                )
            }
        }
        if count > maximumCount { report("", Rule.range, "at most \(maximumCount) headers, got \(count)") }
    }

    /// Returns errors for valid headers that are not permitted in the organization.
    ///
    /// The headers must have passed ``check(_:report:)``.
    ///
    /// - Parameter upstream: the organization's upstream; nil for an organization without an upstream.
    static func refused(_ headers: JSONValue, by upstream: UpstreamSettings?, pointer: String) -> [ProblemDetail] {
        (headers.members.map(Array.init) ?? []).compactMap { name, _ in
            let name = name.string
            if UpstreamSettings.alwaysAllowedHeaders.contains(name.lowercased()) { return nil }
            if let upstream, upstream.allows(name) { return nil }
            let detail =
                HeaderField.isReserved(name)
                ? "\(name) cannot be set by mutations; omit it"
                : "\(name) is not an allowed header of this organization's mutations"
            return ProblemDetail(pointer: pointer + JSONPointer.member(name), rule: Rule.header, detail: detail)
        }
    }
}

extension JSONPointer {
    /// The JSON Pointer from an object to one of its members, such as `/name`, with the name escaped.
    package static func member(_ name: String) -> String {
        JSONPointer().appending(member: name).text
    }
}
