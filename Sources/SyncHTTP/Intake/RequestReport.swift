package import JSONText
package import SyncModel
package import SyncStore

/// The defects of a small body's members, collected, so that an operator sees all of them.
package struct RequestReport {
    package var problems: [ProblemDetail] = []
    /// Problems beyond ``ErrorBounds/perBody``, which are counted only.
    private var omitted = 0

    package init() {}

    /// Reads a JSON object without duplicates, member by member.
    ///
    /// - Parameters:
    ///   - what: the object and its members, for the problem about an unknown member.
    ///   - read: reads a member; false for an unknown one.
    ///   - then: checks the values that were read.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with all problems gathered.
    package static func read(
        _ body: [UInt8],
        of what: String,
        _ read: (inout RequestReport, _ member: String, JSONValue) -> Bool,
        then: (inout RequestReport) -> Void = { _ in }
    ) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        if let defect = tree.defects.first { throw Problem(defect) }
        guard let members = tree.root.members else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        var report = RequestReport()
        for (name, value) in members where !read(&report, name.string, value) {
            report.refuse(unknown: name.string, of: what)
        }
        then(&report)
        if let first = report.problems.first {
            var problem = Problem(.validationFailed, first.detail, errors: report.problems)
            problem.omittedErrors = report.omitted
            throw problem
        }
    }

    package mutating func refuse(_ pointer: String, _ rule: String, _ detail: String) {
        guard problems.count < ErrorBounds.perBody else {
            omitted += 1
            return
        }
        problems.append(ProblemDetail(pointer: pointer, rule: rule, detail: detail))
    }

    /// Refuses a member that the object at `pointer` does not have.
    package mutating func refuse(unknown member: String, of what: String, at pointer: String = "") {
        let pointer = JSONPointer(pointer).appending(member: member).text
        let isSuggesting = problems.count < UnknownMember.suggestions
        refuse(pointer, Rule.unknownMember, UnknownMember.detail(member, of: what, isSuggesting: isSuggesting))
    }

    /// Returns the value, and refuses the member if it is nil.
    package mutating func value<Value>(_ value: Value?, at pointer: String, _ detail: String) -> Value? {
        if value == nil { refuse(pointer, Rule.range, detail) }
        return value
    }
}

/// Reads what issuers call organizations and users.
extension RequestReport {
    /// A list of `{"issuer", "external_id"}`, each once.
    package mutating func externalIDs(_ value: JSONValue) -> [ExternalID]? {
        let place = "/external_ids"
        guard let elements = value.elements.map(Array.init) else {
            refuse(place, Rule.memberType, "external_ids must be a list of objects with issuer and external_id")
            return nil
        }
        guard elements.count <= Administration.maximumExternalIDs else {
            let detail = "at most \(Administration.maximumExternalIDs) external ids, got \(elements.count)"
            refuse(place, Rule.range, detail)
            return nil
        }
        var names: [ExternalID] = []
        var seen: Set<ExternalID> = []
        for (index, element) in elements.enumerated() {
            let pointer = "\(place)/\(index)"
            guard let (issuer, id) = name(element, called: "external_id", "an external id", at: pointer) else {
                continue
            }
            let name = ExternalID(issuer: issuer, id: id)
            if seen.insert(name).inserted {
                names.append(name)
            } else {
                refuse(pointer, Rule.duplicateMember, "the list contains this name of the issuer twice")
            }
        }
        return names
    }

    /// Reads a body `{"issuer", member}`: an issuer, and the name that it gives a user or an organization.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package static func name(
        in body: [UInt8],
        called member: String,
        _ what: String
    ) throws(Problem) -> (issuer: ByteExactString, name: ByteExactString) {
        var name = NameInParts()
        try read(body, of: "\(what): issuer, \(member)") { report, key, value in
            report.read(value, of: key, called: member, at: "", into: &name)
        }
        var report = RequestReport()
        guard let whole = report.whole(name, called: member, at: "") else {
            throw Problem(.validationFailed, report.problems.first?.detail ?? "", errors: report.problems)
        }
        return whole
    }

    private struct NameInParts {
        var issuer: ByteExactString?
        var name: ByteExactString?
    }

    /// The same of an object in a body; nil if anything is wrong.
    private mutating func name(
        _ value: JSONValue,
        called member: String,
        _ what: String,
        at pointer: String
    ) -> (issuer: ByteExactString, name: ByteExactString)? {
        guard let members = value.members else {
            refuse(pointer, Rule.memberType, "\(what) must be an object with issuer and \(member)")
            return nil
        }
        let count = problems.count
        var name = NameInParts()
        for (key, value) in members {
            if !read(value, of: key.string, called: member, at: pointer, into: &name) {
                refuse(unknown: key.string, of: "\(what): issuer, \(member)", at: pointer)
            }
        }
        return problems.count == count ? whole(name, called: member, at: pointer) : nil
    }

    /// False for another member.
    private mutating func read(
        _ value: JSONValue,
        of key: String,
        called member: String,
        at pointer: String,
        into name: inout NameInParts
    ) -> Bool {
        switch key {
        case "issuer": name.issuer = issuer(value, at: pointer)
        case member: name.name = self.name(value, member, at: pointer)
        default: return false
        }
        return true
    }

    private mutating func whole(
        _ name: NameInParts,
        called member: String,
        at pointer: String
    ) -> (issuer: ByteExactString, name: ByteExactString)? {
        guard let issuer = name.issuer else { return missing("issuer", at: pointer) }
        guard let text = name.name else { return missing(member, at: pointer) }
        return (issuer, text)
    }

    private mutating func issuer(_ value: JSONValue, at pointer: String) -> ByteExactString? {
        let issuer = value.string.flatMap { ExternalName.isValidIssuer($0) ? ByteExactString($0) : nil }
        let bounds = "up to \(ExternalName.maximumIssuerBytes) bytes without control characters"
        return self.value(issuer, at: pointer + "/issuer", "issuer must be a text of \(bounds)")
    }

    private mutating func name(_ value: JSONValue, _ member: String, at pointer: String) -> ByteExactString? {
        let name = value.string.flatMap { ExternalName.isValid($0) ? ByteExactString($0) : nil }
        let bounds = "1 to \(ExternalName.maximumBytes) bytes without control characters"
        return self.value(name, at: "\(pointer)/\(member)", "\(member) must be a text of \(bounds)")
    }

    private mutating func missing<Value>(_ member: String, at pointer: String) -> Value? {
        refuse("\(pointer)/\(member)", Rule.required, "\(member) is missing")
        return nil
    }
}
