package import JSONText
package import SyncModel

/// A source of kind `poller`: the gateway asks the organization's upstream for what changed.
package struct PollerSettings: Sendable, Hashable {
    package static let intervals = 5...86_400
    package static let overlaps = 0...86_400
    package static let pageSizes = 1...10_000
    package static let maximumPathBytes = 2_000
    package static let maximumParameterBytes = 100
    package static let headerLimit = 32

    /// Which changes are asked for: those since the last that is known.
    package struct Since: Sendable, Hashable {
        @Exact package private(set) var parameter: String
        package let form: Form
        /// The place of the time of change in an item; with `^` in front, its place in the page.
        package let from: MappedPointer
        /// How much further back the poller asks, to include changes that the API committed late. In seconds.
        package let overlapSeconds: Int

        /// How the parameter is written.
        package enum Form: String, Sendable, Hashable, CaseIterable {
            case rfc3339
            /// Since 1970.
            case seconds
            case milliseconds
            /// Any number or text in the item: the greatest is sent back unchanged.
            case text

            /// A description of this form, for error messages.
            var userMessage: String {
                switch self {
                case .rfc3339: "a time in the form of RFC 3339, such as 2026-11-20T07:00:00Z"
                case .seconds: "seconds since 1970, or a time in the form of RFC 3339"
                case .milliseconds: "milliseconds since 1970, or a time in the form of RFC 3339"
                case .text: "a number or a text, as in updated_since"
                }
            }
        }
    }

    /// How the next page is found.
    package enum Paging: Sendable, Hashable {
        /// There is one page.
        case none
        /// By the header `Link` (RFC 8288), `rel="next"`.
        case link
        /// By a value in the page, which is sent back as a parameter.
        case cursor(parameter: ByteExactString, pointer: ByteExactString)
        /// By numbers.
        case page(parameter: ByteExactString, first: Int)
    }

    package struct PageSize: Sendable, Hashable {
        @Exact package private(set) var parameter: String
        package let value: Int
    }

    /// Below the upstream's base URL; may have a query.
    package private(set) var path = ""
    package private(set) var since: Since?
    package private(set) var paging = Paging.none
    package private(set) var pageSize: PageSize?
    /// From the end of a run to the next.
    package private(set) var intervalSeconds = 30
    /// By name in lower case; they take precedence over the upstream's.
    @Exact package private(set) var headers: [ByteExactString: String] = [:]
    /// Its `events` are the settings' `items`.
    package private(set) var mapping: SourceMapping

    private static let what = """
        the settings of a poller: path, items, updated_since, paging, page_size, interval_seconds, headers, mapping
        """

    /// Reads settings; nil if they have defects, which the report has then.
    package init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var (path, items, mapping): (String?, MappedPointer?, SourceMapping?)
        var (since, pageSize): (Since?, PageSize?)
        var paging = Paging.none
        var interval: Int? = 30
        var headers: [ByteExactString: String] = [:]
        let before = report.problems.count
        let seen = report.members(of: value, at: pointer, Self.what) { report, member, place, value in
            switch member {
            case "path": path = report.pollPath(value, at: place)
            case "items": items = report.bodyPointer(value, at: place)
            case "updated_since": since = Since(value, at: place, &report)
            case "paging": if let found = Paging(value, at: place, &report) { paging = found }
            case "page_size": pageSize = PageSize(value, at: place, &report)
            case "interval_seconds": interval = report.int(value, at: place, Self.intervals)
            case "headers": headers = report.pollHeaders(value, at: place)
            case "mapping":
                mapping = SourceMapping(value, at: place, &report)
                if mapping?.events != nil {
                    let detail = "a poller's items are configured by items, not in mapping"
                    report.refuse(place + "/events", Rule.unknownMember, detail)
                }
                // else a page's events could be many times as large as the page
                for (index, rule) in (mapping?.rules ?? []).enumerated() where rule.document?.isOfBody == true {
                    let detail = "a poller's documents are in its items, so the pointer cannot start at the body"
                    report.refuse("\(place)/rules/\(index)/document", Rule.range, detail)
                }
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["path", "mapping"], in: seen, at: pointer)
        guard report.problems.count == before, let path, let interval, var mapping else { return nil }
        mapping.events = items ?? MappedPointer("")
        self.path = path
        self.since = since
        self.paging = paging
        self.pageSize = pageSize
        intervalSeconds = interval
        self.headers = headers
        self.mapping = mapping
        checkParameters(at: pointer, &report)
        if report.problems.count != before { return nil }
    }

    /// Refuses parameters that are named twice: which of them counts differs between servers.
    private func checkParameters(at pointer: String, _ report: inout SettingsReport) {
        var seen = Set<ByteExactString>(PollPath(path).parameters)
        var ours: [(String, String)] = []
        if let since { ours.append(("/updated_since/parameter", since.parameter)) }
        switch paging {
        case .none, .link: break
        case .cursor(let parameter, _): ours.append(("/paging/cursor/parameter", parameter.string))
        case .page(let parameter, _): ours.append(("/paging/page/parameter", parameter.string))
        }
        if let pageSize { ours.append(("/page_size/parameter", pageSize.parameter)) }
        for (place, parameter) in ours where !seen.insert(parameter).inserted {
            report.refuse(pointer + place, Rule.duplicateMember, "'\(parameter)' is already a parameter of the request")
        }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("path", path)
        writer.member("items", mapping.events?.text ?? "")
        if let since {
            writer.name("updated_since")
            since.write(to: &writer)
        }
        paging.write(to: &writer)
        if let pageSize {
            writer.name("page_size")
            writer.beginObject()
            writer.member("parameter", pageSize.parameter)
            writer.member("value", pageSize.value)
            writer.endObject()
        }
        writer.member("interval_seconds", intervalSeconds)
        if !headers.isEmpty {
            writer.name("headers")
            writer.beginObject()
            for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                writer.string(value)
            }
            writer.endObject()
        }
        var rules = mapping
        rules.events = nil
        writer.name("mapping")
        rules.write(to: &writer)
    }

    /// The state that a worker begins with after an operator asked for everything from a place on: `{"from": …}`; nil
    /// if there is no such place, which the report has then.
    func state(from value: JSONValue, at pointer: String, _ report: inout SettingsReport) -> [UInt8]? {
        guard let form = since?.form else {
            report.refuse(pointer, Rule.range, "from must be null (everything), because updated_since is not set")
            return nil
        }
        guard let since = SinceValue(value, form) else {
            let detail = "from must be null (everything) or the start: \(form.userMessage)"
            report.refuse(pointer, Rule.range, detail)
            return nil
        }
        return PollState(since: since).json
    }
}

extension PollerSettings.Since {
    init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var (parameter, form, from, overlap): (String?, Form?, MappedPointer?, Int?)
        let before = report.problems.count
        let what = "updated_since: parameter, form, from, overlap_seconds"
        let seen = report.members(of: value, at: pointer, what) { report, member, place, value in
            switch member {
            case "parameter": parameter = report.parameter(value, at: place)
            case "form":
                let forms = Form.allCases.map(\.rawValue).joined(separator: ", ")
                form = report.value(
                    value.string.flatMap(Form.init(rawValue:)),
                    at: place,
                    "form must be one of " + forms
                )
            case "from": from = report.mappedPointer(value, at: place)
            case "overlap_seconds": overlap = report.int(value, at: place, PollerSettings.overlaps)
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["parameter", "form", "from"], in: seen, at: pointer)
        if form == .text, seen.contains("overlap_seconds") {
            let detail = "overlap_seconds requires times; a text is sent back unchanged"
            report.refuse(pointer + "/overlap_seconds", Rule.range, detail)
        }
        guard report.problems.count == before, let parameter, let form, let from else { return nil }
        self.parameter = parameter
        self.form = form
        self.from = from
        overlapSeconds = form == .text ? 0 : overlap ?? 60
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("parameter", parameter)
        writer.member("form", form.rawValue)
        writer.member("from", from.text)
        if form != .text { writer.member("overlap_seconds", overlapSeconds) }
        writer.endObject()
    }
}

extension PollerSettings.Paging {
    private static let form = #"{"link": true}, {"cursor": {"parameter", "pointer"}} or {"page": {"parameter"}}"#

    init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var found: [Self] = []
        let before = report.problems.count
        let seen = report.members(of: value, at: pointer, "paging: " + Self.form) { report, member, place, value in
            switch member {
            case "link":
                if value.bool == true {
                    found.append(.link)
                } else {
                    report.refuse(place, Rule.range, "link must be true; omit paging if there is only one page")
                }
            case "cursor":
                var (parameter, at): (String?, String?)
                let members = report.members(of: value, at: place, "a cursor: parameter, pointer") {
                    report,
                    member,
                    place,
                    value in
                    switch member {
                    case "parameter": parameter = report.parameter(value, at: place)
                    case "pointer": at = report.bodyPointer(value, at: place)?.text
                    default: return false
                    }
                    return true
                }
                if let members { report.require(["parameter", "pointer"], in: members, at: place) }
                if let parameter, let at {
                    found.append(.cursor(parameter: ByteExactString(parameter), pointer: ByteExactString(at)))
                }
            case "page":
                var (parameter, first): (String?, Int?) = (nil, 1)
                let members = report.members(of: value, at: place, "page: parameter, first") {
                    report,
                    member,
                    place,
                    value in
                    switch member {
                    case "parameter": parameter = report.parameter(value, at: place)
                    case "first": first = report.int(value, at: place, 0...1)
                    default: return false
                    }
                    return true
                }
                if let members { report.require(["parameter"], in: members, at: place) }
                if let parameter, let first { found.append(.page(parameter: ByteExactString(parameter), first: first)) }
            default: return false
            }
            return true
        }
        guard let seen, report.problems.count == before else { return nil }
        guard seen.count == 1, let paging = found.first else {
            report.refuse(pointer, Rule.range, "paging must be one of \(Self.form); omit it if there is only one page")
            return nil
        }
        self = paging
    }

    func write(to writer: inout JSONWriter) {
        if self == .none { return }
        writer.name("paging")
        writer.beginObject()
        switch self {
        case .none: break
        case .link: writer.member("link", true)
        case .cursor(let parameter, let pointer):
            writer.name("cursor")
            writer.beginObject()
            writer.member("parameter", parameter)
            writer.member("pointer", pointer)
            writer.endObject()
        case .page(let parameter, let first):
            writer.name("page")
            writer.beginObject()
            writer.member("parameter", parameter)
            writer.member("first", first)
            writer.endObject()
        }
        writer.endObject()
    }
}

extension PollerSettings.PageSize {
    init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var (parameter, number): (String?, Int?)
        let seen = report.members(of: value, at: pointer, "page_size: parameter, value") {
            report,
            member,
            place,
            value in
            switch member {
            case "parameter": parameter = report.parameter(value, at: place)
            case "value": number = report.int(value, at: place, PollerSettings.pageSizes)
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["parameter", "value"], in: seen, at: pointer)
        guard let parameter, let number else { return nil }
        self.parameter = parameter
        self.value = number
    }
}
