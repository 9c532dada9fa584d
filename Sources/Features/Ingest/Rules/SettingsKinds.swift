import JSONText
import SyncModel

// `MemberKind`s that the settings of several sources share. Their error messages call the member "this".

extension MemberKind<String> {
    /// A text without control characters.
    static func plain(_ limit: Int) -> Self {
        text("must be a string of 1 to \(limit) bytes without control characters", subject: "this") { text in
            (1...limit).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
        }
    }

    /// A query parameter's name.
    static var parameter: Self { plain(PollerSettings.maximumParameterBytes) }

    /// The name of a column.
    static var column: Self { plain(QualifiedName.partLimit) }

    static var pollPath: Self {
        Self { value, place, report in
            let most = PollerSettings.maximumPathBytes
            guard let text = value.string, text.utf8.count <= most else {
                report.refuse(place.pointer, Rule.range, "path must be a string of at most \(most) bytes")
                return nil
            }
            guard let problem = PathRules.problem(in: text) else { return text }
            report.refuse(place.pointer, Rule.endpoint, "path \(problem)")
            return nil
        }
    }
}

extension MemberKind<MappedPointer> {
    /// A pointer in a mapping.
    static var mappedPointer: Self { Self(pointerForm, subject: "this") { $0.string.flatMap { MappedPointer($0) } } }

    static let pointerForm = """
        must be a JSON Pointer (RFC 6901) of at most \(MappedPointer.maximumBytes) bytes, such as /data/id; with ^ \
        in front, it starts at the whole body
        """

    /// A pointer that starts at the whole body.
    static var bodyPointer: Self {
        let form = "a JSON Pointer (RFC 6901) of at most \(MappedPointer.maximumBytes) bytes, such as /data"
        return Self("must be \(form); it starts at the whole body", subject: "this") { value in
            value.string.flatMap { MappedPointer($0) }.flatMap { $0.isOfBody ? nil : $0 }
        }
    }
}

extension MemberKind<[ByteExactString: String]> {
    static var pollHeaders: Self {
        Self { value, place, report in
            var headers: [ByteExactString: String] = [:]
            var folded: Set<ByteExactString> = []
            var count = 0
            report.members(of: value, at: place.pointer, "headers, with their values") { report, name, place, value in
                count += 1
                guard count <= PollerSettings.headerLimit else { return }
                guard let text = value.string else {
                    return report.refuse(place, Rule.memberType, "a header's value must be a string")
                }
                let form = UpstreamRequest.foldedHeader(name)
                if let problem = UpstreamSettings.headerProblem(name: name, value: text, isCredential: false) {
                    report.refuse(place, Rule.header, "header \(name) " + problem)
                } else if UpstreamFetch.owns(name) {
                    report.refuse(place, Rule.header, "header \(name) is set by the gateway; omit it")
                } else if !folded.insert(form).inserted {
                    let detail =
                        "names of headers are compared without case, and with - equal to _; list each name once"
                    report.refuse(place, Rule.duplicateMember, detail)
                } else {
                    headers[name.lowercased()] = text
                }
            }
            if count > PollerSettings.headerLimit {
                let detail = "at most \(PollerSettings.headerLimit) headers, got \(count)"
                report.refuse(place.pointer, Rule.range, detail)
            }
            return headers
        }
    }
}
