package import JSONText
package import SyncModel

/// The defects of a source's settings, collected, so that an operator sees all of them.
package struct SettingsReport: Sendable {
    /// Defects that are gathered at most.
    static let limit = 100

    package private(set) var problems: [ProblemDetail] = []

    package init() {}

    package mutating func refuse(_ pointer: String, _ rule: String, _ detail: String) {
        guard problems.count < Self.limit else { return }
        problems.append(ProblemDetail(pointer: pointer, rule: rule, detail: detail))
    }

    /// Returns the value, and refuses the member if it is nil.
    package mutating func value<Value>(
        _ value: Value?,
        at pointer: String,
        rule: String = Rule.range,
        _ detail: @autoclosure () -> String
    ) -> Value? {
        if value == nil { refuse(pointer, rule, detail()) }
        return value
    }

    /// Reads an object member by member.
    ///
    /// - Parameters:
    ///   - hasNulls: whether null members mean something; otherwise they are as good as absent.
    ///   - what: the object and its members, for the defect of an unknown member.
    ///   - read: reads a member at its pointer; false for an unknown one.
    /// - Returns: the names of the present members; nil if the value is no object.
    @discardableResult
    package mutating func members(
        of value: JSONValue,
        at pointer: String,
        _ what: String,
        hasNulls: Bool = false,
        _ read: (inout SettingsReport, _ member: String, _ pointer: String, JSONValue) -> Bool
    ) -> Set<ByteExactString>? {
        guard let members = value.members else {
            refuse(pointer, Rule.memberType, "this must be an object: \(what)")
            return nil
        }
        var seen: Set<ByteExactString> = []
        for (name, value) in members where hasNulls || !value.isNull {
            let member = name.string
            let place = JSONPointer(pointer).appending(member: member).text
            guard seen.insert(member).inserted else {
                refuse(place, Rule.duplicateMember, "'\(member)' occurs twice")
                continue
            }
            if !read(&self, member, place, value) {
                let isSuggesting = problems.count < UnknownMember.suggestions
                let detail = UnknownMember.detail(member, of: what, isSuggesting: isSuggesting)
                refuse(place, Rule.unknownMember, detail)
            }
        }
        return seen
    }

    package mutating func require(_ members: [String], in seen: Set<ByteExactString>, at pointer: String) {
        for member in members where !seen.contains(member) {
            refuse(JSONPointer(pointer).appending(member: member).text, Rule.required, "\(member) is required")
        }
    }

    /// A text of 1 to `limit` bytes without control characters.
    package mutating func text(_ value: JSONValue, at pointer: String, limit: Int) -> String? {
        let text = value.string.flatMap { text in
            let bytes = text.utf8
            let isGood = (1...limit).contains(bytes.count) && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
            return isGood ? text : nil
        }
        return self.value(text, at: pointer, "this must be a string of 1 to \(limit) bytes without control characters")
    }

    package mutating func int(_ value: JSONValue, at pointer: String, _ range: ClosedRange<Int>) -> Int? {
        let number = value.int64.flatMap { Int(exactly: $0) }.flatMap { range.contains($0) ? $0 : nil }
        return self.value(number, at: pointer, "this must be an integer, \(range.lowerBound) to \(range.upperBound)")
    }

    package mutating func bool(_ value: JSONValue, at pointer: String) -> Bool? {
        self.value(value.bool, at: pointer, rule: Rule.memberType, "this must be true or false")
    }
}

/// Reads what settings of a poller have.
extension SettingsReport {
    mutating func pollPath(_ value: JSONValue, at pointer: String) -> String? {
        let most = PollerSettings.maximumPathBytes
        guard let text = value.string, text.utf8.count <= most else {
            refuse(pointer, Rule.range, "path must be a string of at most \(most) bytes")
            return nil
        }
        if let problem = PathRules.problem(in: text) {
            refuse(pointer, Rule.endpoint, "path \(problem)")
            return nil
        }
        return text
    }

    /// A pointer from the whole body on.
    mutating func bodyPointer(_ value: JSONValue, at pointer: String) -> MappedPointer? {
        let found = value.string.flatMap { MappedPointer($0) }.flatMap { $0.isOfBody ? nil : $0 }
        let form = "a JSON Pointer (RFC 6901) of at most \(MappedPointer.maximumBytes) bytes, such as /data"
        return self.value(found, at: pointer, "this must be \(form); it starts at the whole body")
    }

    /// A query parameter's name.
    mutating func parameter(_ value: JSONValue, at pointer: String) -> String? {
        text(value, at: pointer, limit: PollerSettings.maximumParameterBytes)
    }

    mutating func pollHeaders(_ value: JSONValue, at pointer: String) -> [ByteExactString: String] {
        var headers: [ByteExactString: String] = [:]
        var folded: Set<ByteExactString> = []
        var count = 0
        members(of: value, at: pointer, "headers, with their values") { report, name, place, value in
            count += 1
            guard count <= PollerSettings.headerLimit else { return true }
            guard let text = value.string else {
                report.refuse(place, Rule.memberType, "a header's value must be a string")
                return true
            }
            let form = UpstreamRequest.foldedHeader(name)
            if let problem = UpstreamSettings.headerProblem(name: name, value: text, isCredential: false) {
                report.refuse(place, Rule.header, "header \(name) " + problem)
            } else if UpstreamFetch.owns(name) {
                report.refuse(place, Rule.header, "header \(name) is set by the gateway; omit it")
            } else if !folded.insert(form).inserted {
                let detail = "names of headers are compared without case, and with - equal to _; list each name once"
                report.refuse(place, Rule.duplicateMember, detail)
            } else {
                headers[name.lowercased()] = text
            }
            return true
        }
        if count > PollerSettings.headerLimit {
            refuse(pointer, Rule.range, "at most \(PollerSettings.headerLimit) headers, got \(count)")
        }
        return headers
    }
}
