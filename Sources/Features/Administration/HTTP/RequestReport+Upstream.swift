import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// Reads the members of an upstream.
extension RequestReport {
    mutating func baseURL(_ value: JSONValue) -> String? {
        guard let text = value.string else {
            refuse("/base_url", Rule.memberType, "base_url must be a string; use DELETE to remove the upstream")
            return nil
        }
        do throws(BaseURL.Malformed) {
            return try BaseURL(text).text
        } catch {
            refuse("/base_url", Rule.range, "base_url " + error.reason)
            return nil
        }
    }

    mutating func int(_ value: JSONValue, _ range: ClosedRange<Int>, _ name: String) -> Change<Int> {
        if value.isNull { return .reset }
        if let number = value.int64, range.contains(Int(number)) { return .set(Int(number)) }
        return keep("/" + name, Rule.range, "\(name) must be an integer, \(range.lowerBound) to \(range.upperBound)")
    }

    mutating func idPointer(_ value: JSONValue) -> Change<String> {
        if value.isNull { return .reset }
        if let text = value.string, !text.isEmpty, text.utf8.count <= 200, JSONPointer.isValid(text) {
            return .set(text)
        }
        let detail =
            "id_pointer must be a JSON Pointer (RFC 6901) of at least one step, like /id, and at most 200 bytes"
        return keep("/id_pointer", Rule.range, detail + " at most")
    }

    mutating func flag(_ value: JSONValue, _ name: String) -> Change<Bool> {
        if value.isNull { return .reset }
        if let flag = value.bool { return .set(flag) }
        return keep("/" + name, Rule.memberType, "\(name) must be true or false")
    }

    mutating func eraseEndpoint(_ value: JSONValue) -> Change<String?> {
        if value.isNull { return .reset }
        guard let text = value.string else {
            return keep("/erase_endpoint", Rule.memberType, "erase_endpoint must be a string, or null")
        }
        guard let problem = EraseEndpoint.problem(text) else { return .set(text) }
        return keep("/erase_endpoint", Rule.range, "erase_endpoint " + problem)
    }

    mutating func outcomes(_ value: JSONValue) -> Change<OutcomeRules> {
        if value.isNull { return .reset }
        var errors: [ProblemDetail] = []
        let rules = OutcomeRules(value, at: "/outcomes", &errors)
        for error in errors { refuse(error.pointer, error.rule, error.detail) }
        return .set(rules)
    }

    mutating func requestsPerSecond(_ value: JSONValue) -> Change<Int64?> {
        if value.isNull { return .reset }
        if let number = value.int64, (1...1_000_000).contains(number) { return .set(number) }
        let detail = "requests_per_second must be an integer, 1 to 1000000"
        return keep("/requests_per_second", Rule.range, detail)
    }

    /// Whether the upstream is paused.
    mutating func pause(_ value: JSONValue) -> Change<Bool> {
        if value.isNull { return .reset }
        if value.stringEquals("paused") { return .set(true) }
        if value.stringEquals("active") { return .set(false) }
        return keep("/status", Rule.range, "status must be active or paused")
    }

    mutating func pausedUntil(_ value: JSONValue) -> Change<Timestamp?> {
        if value.isNull { return .reset }
        if let moment = value.string.flatMap(Timestamp.init(rfc3339:)) { return .set(moment) }
        return keep("/paused_until", Rule.timestamp, "paused_until must be a date-time like 2026-11-27T18:00:00Z")
    }

    mutating func headers(_ value: JSONValue) -> Change<[ByteExactString: String]> {
        if value.isNull { return .reset }
        guard let members = value.members else {
            return keep("/headers", Rule.memberType, "headers must be an object of strings")
        }
        var headers: [ByteExactString: String] = [:]
        var seen: Set<ByteExactString> = []
        var count = 0
        for (name, value) in members {
            count += 1
            let name = name.string
            let pointer = JSONPointer("/headers").appending(member: name).text
            if let text = header(name, value, at: pointer) {
                headers[name.lowercased()] = text
                record(name, at: pointer, &seen)
            }
        }
        if count > 32 { refuse("/headers", Rule.range, "at most 32 headers, got \(count)") }
        return .set(headers)
    }

    mutating func allowedHeaders(_ value: JSONValue) -> Change<[String]> {
        if value.isNull { return .reset }
        guard let elements = value.elements else {
            return keep("/allowed_headers", Rule.memberType, "allowed_headers must be an array of headers' names")
        }
        var names: [String] = []
        var seen: Set<ByteExactString> = []
        var count = 0
        for element in elements {
            let pointer = "/allowed_headers/\(count)"
            count += 1
            guard let name = element.string else {
                refuse(pointer, Rule.memberType, "a header's name must be a string")
                continue
            }
            if let problem = UpstreamSettings.allowedHeaderProblem(name) {
                refuse(pointer, Rule.header, "header \(name) " + problem)
            } else {
                names.append(name.lowercased())
                record(name, at: pointer, &seen)
            }
        }
        let most = UpstreamSettings.maximumAllowedHeaders
        if count > most { refuse("/allowed_headers", Rule.range, "at most \(most) names, got \(count)") }
        return .set(names.sorted())
    }

    /// Refuses a name that many servers take for one given before.
    private mutating func record(_ name: String, at pointer: String, _ seen: inout Set<ByteExactString>) {
        if seen.insert(UpstreamRequest.foldedHeader(name)).inserted { return }
        let detail = "names of headers are compared without case, and with - equal to _; list each name once"
        refuse(pointer, Rule.duplicateMember, detail)
    }

    private mutating func header(_ name: String, _ value: JSONValue, at pointer: String) -> String? {
        guard let text = value.string else {
            refuse(pointer, Rule.memberType, "a header's value must be a string")
            return nil
        }
        if let problem = UpstreamSettings.headerProblem(name: name, value: text, isCredential: false) {
            refuse(pointer, Rule.header, "header \(name) " + problem)
            return nil
        }
        return text
    }

    private mutating func keep<Value>(_ pointer: String, _ rule: String, _ detail: String) -> Change<Value> {
        refuse(pointer, rule, detail)
        return .keep
    }

    // MARK: - Credentials

    mutating func credential(_ value: JSONValue, _ rules: UpstreamRules) -> Change<UpstreamCredential?> {
        if value.isNull { return .reset }
        if value.stringEquals("signed") { return signed(rules) }
        guard let members = value.members else {
            let detail = #"credential must be {"bearer"}, {"header", "value"}, "signed" or null"#
            return keep("/credential", Rule.memberType, detail)
        }
        let names = Set<ByteExactString>(members.map(\.name.string))
        for name in names.map(\.string).sorted() where !["bearer", "header", "value"].contains(name) {
            refuse(unknown: name, of: "a credential: bearer, or header and value", at: "/credential")
        }
        if names.contains("bearer") {
            guard names.isDisjoint(with: ["header", "value"]) else {
                refuse("/credential", Rule.range, "a credential has either bearer, or header and value")
                return .keep
            }
            return bearer(value)
        }
        return header(value)
    }

    private mutating func signed(_ rules: UpstreamRules) -> Change<UpstreamCredential?> {
        guard !rules.canSign else { return .set(.signed) }
        let detail = "this gateway has no signing key; set SLUICE_SIGNING_KEY_FILE, or choose another credential"
        return keep("/credential", Rule.range, detail)
    }

    private mutating func bearer(_ value: JSONValue) -> Change<UpstreamCredential?> {
        guard let token = text(of: "bearer", in: value) else { return .keep }
        let problem = UpstreamSettings.headerProblem(
            name: "authorization",
            value: "Bearer " + token,
            isCredential: true
        )
        if let problem {
            return keep("/credential/bearer", Rule.header, "the credential's header " + problem)
        }
        return .set(.bearer(token))
    }

    private mutating func header(_ value: JSONValue) -> Change<UpstreamCredential?> {
        let name = text(of: "header", in: value)
        guard let text = text(of: "value", in: value), let name else { return .keep }
        if let problem = UpstreamSettings.headerProblem(name: name, value: text, isCredential: true) {
            return keep("/credential", Rule.header, "the credential's header " + problem)
        }
        return .set(.header(name: name, value: text))
    }

    /// A required text. A credential as responses show it, without its secret, is refused.
    private mutating func text(of member: String, in value: JSONValue) -> String? {
        let pointer = "/credential/" + member
        guard let value = value.value(at: "/" + member) else {
            refuse(pointer, Rule.required, "a credential with a header has both header and value")
            return nil
        }
        if let text = value.string, !text.isEmpty { return text }
        let detail = "\(member) must be a non-empty string; omit credential to keep the current one"
        refuse(pointer, Rule.memberType, detail)
        return nil
    }
}
