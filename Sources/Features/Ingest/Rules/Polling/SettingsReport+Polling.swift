import JSONText
import SyncModel

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
