import JSONText
import SyncModel
import SyncStore

// The kinds of an upstream's members. If a closure returns nil, the closure has added an error to the report.

extension MemberKind<String> {
    static var baseURL: Self {
        Self { value, place, report in
            guard let text = value.string else {
                let detail = "base_url must be a string; use DELETE to remove the upstream"
                report.refuse(place.pointer, Rule.memberType, detail)
                return nil
            }
            do throws(BaseURL.Malformed) {
                return try BaseURL(text).text
            } catch {
                report.refuse(place.pointer, Rule.range, "base_url " + error.reason)
                return nil
            }
        }
    }

    static var idPointer: Self {
        let form = "a JSON Pointer (RFC 6901) of at least one step, like /id, and at most 200 bytes at most"
        return text("must be " + form) { !$0.isEmpty && $0.utf8.count <= 200 && JSONPointer.isValid($0) }
    }
}

extension MemberKind<String?> {
    static var eraseEndpoint: Self {
        Self { value, place, report in
            guard let text = value.string else {
                report.refuse(place.pointer, Rule.memberType, "erase_endpoint must be a string, or null")
                return nil
            }
            guard let problem = EraseEndpoint.problem(text) else { return text }
            report.refuse(place.pointer, Rule.range, "erase_endpoint " + problem)
            return nil
        }
    }
}

extension MemberKind<OutcomeRules> {
    static var outcomes: Self {
        Self { value, place, report in
            var errors: [ProblemDetail] = []
            let rules = OutcomeRules(value, at: place.pointer, &errors)
            for error in errors { report.refuse(error.pointer, error.rule, error.detail) }
            return rules
        }
    }
}

extension MemberKind<Int64?> {
    static var requestsPerSecond: Self {
        Self("must be an integer, 1 to 1000000") { value in
            value.int64.flatMap { (1...1_000_000).contains($0) ? .some($0) : nil }
        }
    }
}

extension MemberKind<UpstreamBatch?> {
    static var batch: Self {
        Self { value, place, report in UpstreamBatch(value, at: place.pointer, &report).map { .some($0) } }
    }
}

extension MemberKind<Bool> {
    /// Whether the upstream is paused.
    static var pauseStatus: Self {
        Self("must be active or paused") { $0.string.flatMap { ["active": false, "paused": true][$0] } }
    }
}

extension MemberKind<Timestamp?> {
    static var pauseEnd: Self {
        Self("must be a date-time like 2026-11-27T18:00:00Z", rule: Rule.timestamp) { value in
            value.string.flatMap(Timestamp.init(rfc3339:)).map { .some($0) }
        }
    }
}

extension MemberKind<[ByteExactString: String]> {
    static var headers: Self {
        Self { value, place, report in
            guard let members = value.members else {
                report.refuse(place.pointer, Rule.memberType, "headers must be an object of strings")
                return nil
            }
            var headers: [ByteExactString: String] = [:]
            var seen: Set<ByteExactString> = []
            var count = 0
            for (name, value) in members {
                count += 1
                let name = name.string
                let pointer = JSONPointer(place.pointer).appending(member: name).text
                guard let text = value.string else {
                    report.refuse(pointer, Rule.memberType, "a header's value must be a string")
                    continue
                }
                if let problem = UpstreamSettings.headerProblem(name: name, value: text, isCredential: false) {
                    report.refuse(pointer, Rule.header, "header \(name) " + problem)
                    continue
                }
                headers[name.lowercased()] = text
                report.record(header: name, at: pointer, &seen)
            }
            if count > 32 { report.refuse(place.pointer, Rule.range, "at most 32 headers, got \(count)") }
            return headers
        }
    }
}

extension MemberKind<[String]> {
    static var allowedHeaders: Self {
        Self { value, place, report in
            guard let elements = value.elements else {
                let detail = "allowed_headers must be an array of headers' names"
                report.refuse(place.pointer, Rule.memberType, detail)
                return nil
            }
            var names: [String] = []
            var seen: Set<ByteExactString> = []
            for (index, element) in elements.enumerated() {
                let pointer = "\(place.pointer)/\(index)"
                guard let name = element.string else {
                    report.refuse(pointer, Rule.memberType, "a header's name must be a string")
                    continue
                }
                if let problem = UpstreamSettings.allowedHeaderProblem(name) {
                    report.refuse(pointer, Rule.header, "header \(name) " + problem)
                    continue
                }
                names.append(name.lowercased())
                report.record(header: name, at: pointer, &seen)
            }
            let most = UpstreamSettings.maximumAllowedHeaders
            let count = elements.count
            if count > most { report.refuse(place.pointer, Rule.range, "at most \(most) names, got \(count)") }
            return names.sorted()
        }
    }
}

extension MemberReport {
    /// Refuses a header name that differs from an earlier name only in case, or only by `-` in place of `_`.
    ///
    /// Many servers treat such names as equal.
    fileprivate mutating func record(header name: String, at pointer: String, _ seen: inout Set<ByteExactString>) {
        if seen.insert(UpstreamRequest.foldedHeader(name)).inserted { return }
        let detail = "names of headers are compared without case, and with - equal to _; list each name once"
        refuse(pointer, Rule.duplicateMember, detail)
    }
}

extension MemberKind<UpstreamCredential?> {
    static func credential(_ rules: UpstreamRules) -> Self {
        Self { value, place, report in
            if value.stringEquals("signed") {
                if rules.canSign { return .signed }
                let detail =
                    "this gateway has no signing key; set SLUICE_SIGNING_KEY_FILE, or choose another credential"
                report.refuse(place.pointer, Rule.range, detail)
                return nil
            }
            guard let members = value.members else {
                let detail = #"credential must be {"bearer"}, {"header", "value"}, "signed" or null"#
                report.refuse(place.pointer, Rule.memberType, detail)
                return nil
            }
            let names = Set(members.map { ByteExactString($0.name.string) })
            return report.credential(names, in: value, at: place.pointer).map { .some($0) }
        }
    }
}

extension MemberReport {
    fileprivate mutating func credential(
        _ names: Set<ByteExactString>,
        in value: JSONValue,
        at pointer: String
    ) -> UpstreamCredential? {
        for name in names.map(\.string).sorted() where !["bearer", "header", "value"].contains(name) {
            refuse(unknown: name, of: "a credential: bearer, or header and value", at: pointer)
        }
        if names.contains("bearer"), !names.isDisjoint(with: ["header", "value"]) {
            refuse(pointer, Rule.range, "a credential has either bearer, or header and value")
            return nil
        }
        let isBearer = names.contains("bearer")
        let name = isBearer ? "authorization" : text(of: "header", in: value, at: pointer)
        guard let text = text(of: isBearer ? "bearer" : "value", in: value, at: pointer), let name else { return nil }
        let field = isBearer ? "Bearer " + text : text
        if let problem = UpstreamSettings.headerProblem(name: name, value: field, isCredential: true) {
            refuse(isBearer ? pointer + "/bearer" : pointer, Rule.header, "the credential's header " + problem)
            return nil
        }
        return isBearer ? .bearer(text) : .header(name: name, value: text)
    }

    /// Returns a required, non-empty text of a credential. If there is no such text, reports an error and returns nil.
    ///
    /// Therefore a credential is refused if it was copied from a response, because responses omit the secret.
    private mutating func text(of member: String, in value: JSONValue, at pointer: String) -> String? {
        let pointer = "\(pointer)/\(member)"
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
