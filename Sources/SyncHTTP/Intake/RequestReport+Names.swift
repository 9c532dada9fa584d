package import JSONText
package import SyncModel
package import SyncStore

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
