package import JSONText
package import SyncModel

/// A source of kind `poller`: the gateway requests changes from the organization's upstream.
package struct PollerSettings: TableObject, Hashable {
    package static let intervals = 5...86_400
    package static let overlaps = 0...86_400
    package static let pageSizes = 1...10_000
    package static let maximumPathBytes = 2_000
    package static let maximumParameterBytes = 100
    package static let headerLimit = 32

    /// The query parameter by which the gateway requests only later changes.
    package struct Since: TableObject, Hashable {
        @Exact package private(set) var parameter: String = ""
        package private(set) var form = Form.rfc3339
        /// The place of an item's time of change. A pointer with `^` refers to a time in the page instead of the item.
        package private(set) var from = MappedPointer()
        /// The overlap of requests, in seconds. A request also covers this time before the position, because an API may
        /// commit changes late.
        package private(set) var overlapSeconds = 60

        package init() {}

        package static let table = MemberTable<Self, Self>("updated_since") {
            BodyMember("parameter", .parameter, as: \.parameter).required()
            BodyMember("form", .oneOf, as: \.form).required()
            BodyMember("from", .mappedPointer, as: \.from).required()
            BodyMember("overlap_seconds", .integer(overlaps, subject: "this"), as: \.overlapSeconds)
                .omitted { $0.form == .text }
        } check: { since, object, report in
            guard since.form == .text else { return }
            since.overlapSeconds = 0
            if object.has("overlap_seconds") {
                let detail = "overlap_seconds requires times; a text is sent back unchanged"
                report.refuse(object.pointer + "/overlap_seconds", Rule.range, detail)
            }
        }

        /// The format of the parameter's value.
        package enum Form: String, Sendable, Hashable, CaseIterable, JSONWritable {
            case rfc3339
            /// Seconds since 1970.
            case seconds
            case milliseconds
            /// Any number or text in the items. The greatest value is sent back unchanged.
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

    /// How the gateway finds the next page.
    package enum Paging: Sendable, Hashable {
        /// The list has only one page.
        case none
        /// The response has the header `Link` (RFC 8288) with `rel="next"`.
        case link
        /// The page contains a cursor, which the next request sends back as a parameter.
        case cursor(parameter: ByteExactString, pointer: ByteExactString)
        /// The request contains a page number as a parameter.
        case page(parameter: ByteExactString, first: Int)
    }

    package struct PageSize: TableObject, Hashable {
        @Exact package private(set) var parameter: String = ""
        package private(set) var value = 0

        package init() {}

        package static let table = MemberTable<Self, Self>("page_size") {
            BodyMember("parameter", .parameter, as: \.parameter).required()
            BodyMember("value", .integer(pageSizes, subject: "this"), as: \.value).required()
        }
    }

    /// The path below the upstream's base URL. It may contain a query.
    package private(set) var path = ""
    package private(set) var since: Since?
    package private(set) var paging = Paging.none
    package private(set) var pageSize: PageSize?
    /// The time from the end of a run to the next run, in seconds.
    package private(set) var intervalSeconds = 30
    /// The headers of requests, by name in lower case. They take precedence over headers in the upstream's settings.
    @Exact package private(set) var headers: [ByteExactString: String] = [:]
    /// The mapping of items to events. Its `events` is the setting `items`.
    package private(set) var mapping = SourceMapping()

    package init() { mapping.events = MappedPointer() }

    package static let table = MemberTable<Self, Self>("the settings of a poller") {
        BodyMember("path", .pollPath, as: \.path).required()
        BodyMember("items", .bodyPointer, as: \.mapping.events)
        BodyMember("updated_since", .object, as: \.since)
        BodyMember("paging", MemberKind { Paging($0, at: $1.pointer, &$2) }, as: \.paging)
            .omitted { $0.paging == .none }
        BodyMember("page_size", .object, as: \.pageSize)
        BodyMember("interval_seconds", .integer(intervals, subject: "this"), as: \.intervalSeconds)
        BodyMember("headers", .pollHeaders, into: \.headers)
            .written { settings, writer in
                writer.object { writer in
                    for (name, value) in settings.headers.sorted(by: { $0.key < $1.key }) {
                        writer.name(name)
                        writer.string(value)
                    }
                }
            }
            .omitted { $0.headers.isEmpty }
        BodyMember("mapping", read: readMapping).required().shown { settings in
            var mapping = settings.mapping
            mapping.events = nil
            return mapping
        }
    } check: { settings, object, report in
        if object.isValid { settings.checkParameters(at: object.pointer, &report) }
    }

    @Sendable
    private static func readMapping(
        _ value: JSONValue,
        _ place: MemberPlace,
        _ settings: inout Self,
        _ report: inout MemberReport
    ) {
        guard var mapping = SourceMapping(value, at: place.pointer, &report) else { return }
        if mapping.events != nil {
            let detail = "a poller's items are configured by items, not in mapping"
            report.refuse(place.pointer + "/events", Rule.unknownMember, detail)
        }
        // a document from the whole body would be repeated for each item, and the events could be much larger than the
        // page
        for (index, rule) in mapping.rules.enumerated() where rule.document?.isOfBody == true {
            let detail = "a poller's documents are in its items, so the pointer cannot start at the body"
            report.refuse("\(place.pointer)/rules/\(index)/document", Rule.range, detail)
        }
        mapping.events = settings.mapping.events
        settings.mapping = mapping
    }

    /// Refuses a parameter that occurs twice, because servers differ in which of the two values they use.
    private func checkParameters(at pointer: String, _ report: inout MemberReport) {
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

    /// Returns the state with which a worker reads all data from a place on, as an operator has requested (`{"from":
    /// …}`).
    ///
    /// If the value is not a valid place, this returns nil and adds an error to the report.
    func state(from value: JSONValue, at pointer: String, _ report: inout MemberReport) -> [UInt8]? {
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

extension PollerSettings.Paging: JSONWritable {
    private static let form = #"{"link": true}, {"cursor": {"parameter", "pointer"}} or {"page": {"parameter"}}"#

    /// The members of a paging object, which must contain exactly one of them.
    private static let table = MemberTable<[Self], Self>("paging: " + form) {
        BodyMember("link") { value, place, found, report in
            let detail = "link must be true; omit paging if there is only one page"
            if report.value(value.bool == true ? true : nil, at: place.pointer, detail) != nil { found.append(.link) }
        }
        BodyMember("cursor") { value, place, found, report in
            guard let cursor = Cursor(value, at: place.pointer, &report) else { return }
            let pointer = ByteExactString(cursor.pointer.text)
            found.append(.cursor(parameter: ByteExactString(cursor.parameter), pointer: pointer))
        }
        BodyMember("page") { value, place, found, report in
            guard let page = Page(value, at: place.pointer, &report) else { return }
            found.append(.page(parameter: ByteExactString(page.parameter), first: page.first))
        }
    }

    private struct Cursor: TableObject {
        var parameter = ""
        var pointer = MappedPointer()

        static let table = MemberTable<Self, Self>("a cursor") {
            BodyMember("parameter", .parameter, as: \.parameter).required()
            BodyMember("pointer", .bodyPointer, as: \.pointer).required()
        }
    }

    private struct Page: TableObject {
        var parameter = ""
        var first = 1

        static let table = MemberTable<Self, Self>("page") {
            BodyMember("parameter", .parameter, as: \.parameter).required()
            BodyMember("first", .integer(0...1, subject: "this"), as: \.first)
        }
    }

    init?(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) {
        var found: [Self] = []
        guard Self.table.read(value, at: pointer, into: &found, &report) else { return nil }
        guard let paging = found.first, found.count == 1 else {
            let detail = "paging must be one of \(Self.form); omit it if there is only one page"
            report.refuse(pointer, Rule.range, detail)
            return nil
        }
        self = paging
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            switch self {
            case .none: break
            case .link: writer.member("link", true)
            case .cursor(let parameter, let pointer):
                writer.member("cursor") { writer in
                    writer.member("parameter", parameter)
                    writer.member("pointer", pointer)
                }
            case .page(let parameter, let first):
                writer.member("page") { writer in
                    writer.member("parameter", parameter)
                    writer.member("first", first)
                }
            }
        }
    }
}
