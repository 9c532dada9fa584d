package import SyncModel

/// A page of an upstream's list.
package struct PollPage: Sendable {
    /// What follows the page: a next page, the end of the list, or a next page that cannot be requested.
    enum End: Sendable, Hashable {
        case last
        case next(PollState.Place)
        /// The next page cannot be requested, for the given reason.
        case broken(String)
    }

    /// The events of the page, in the order in which they must be submitted; nil if there are no events.
    package let events: MappedEvents?
    let items: Int
    let request: UpstreamFetch
    let response: FetchedResponse
    var end: End
    /// The greatest time of change among the page's items.
    var greatest: SinceValue?
    /// A hash of the items' text; nil for a page without items.
    var content: String?

    init(events: MappedEvents?, items: Int, request: UpstreamFetch, response: FetchedResponse, end: End) {
        self.events = events
        self.items = items
        self.request = request
        // drops the body, which has already been read, to save memory
        var response = response
        response.body = []
        self.response = response
        self.end = end
    }
}

/// The results of a page's events.
package struct PollTally: Sendable, Hashable {
    package private(set) var refused = 0
    /// The place of the first refused event, and the reason.
    @Exact package private(set) var firstRefusal: String?
    /// Whether an event of the page was new.
    package private(set) var hasEvents = false
    /// The maximum length of a refusal that is shown, in characters.
    private static let shownCharacters = 500

    package init() {}

    /// Adds the results of later events.
    package mutating func add(_ other: PollTally) {
        refused += other.refused
        firstRefusal = firstRefusal ?? other.firstRefusal
        hasEvents = hasEvents || other.hasEvents
    }

    /// Records that an event was new.
    package mutating func recordEvents() { hasEvents = true }

    /// Counts the result of an event.
    ///
    /// - Parameter problem: the problem if the event was refused. Its pointers refer to the page.
    package mutating func record(_ result: IngestResult, _ problem: Problem?) {
        switch result {
        case .applied, .stale, .echo, .parked: hasEvents = true
        case .duplicate: break
        case .refused:
            refused += 1
            guard firstRefusal == nil else { return }
            let place = problem?.errors.first.map { "(at '\($0.pointer)')" } ?? "(an item)"
            let reason = problem?.errors.first?.detail ?? problem?.detail ?? "the item is not valid"
            // control characters are replaced, because the text can contain member names from the upstream's JSON
            let shown = "\(place): \(reason)".prefix(Self.shownCharacters).map { character in
                character.unicodeScalars.contains { $0.properties.generalCategory == .control } ? " " : character
            }
            firstRefusal = String(shown)
        }
    }
}

/// The reason why a poller could not complete a pass.
package struct PollFailure: Sendable, Hashable {
    /// The reason, for operators.
    package let reason: String
    /// The earliest time of the next request, from the header `Retry-After`; nil without this header.
    package internal(set) var retryAt: Timestamp?
    /// The state after the failure; nil if the state stays unchanged.
    package internal(set) var state: PollState?

    package init(_ reason: String) {
        self.init(reason, nil)
    }

    init(_ reason: String, _ state: PollState?) {
        self.reason = reason
        self.state = state
    }
}

/// Reads the header `Link` (RFC 8288, appendix B.2). The reader is lenient: after a syntax error it continues at the
/// next comma.
enum LinkHeader {
    /// The target of the first link whose relation to the response is `next`; nil if there is no such link.
    static func next(in values: [String]) -> String? {
        for value in values {
            var reader = Reader(value)
            while let link = reader.link() {
                if link.isNext { return link.target }
            }
        }
        return nil
    }

    private struct Reader {
        private var rest: Substring.UTF8View

        init(_ text: String) {
            rest = Substring(text).utf8
        }

        mutating func link() -> (target: String, isNext: Bool)? {
            skip(Self.isBetweenLinks)
            // what is not a link ends at the next comma
            while let first = rest.first, first != UInt8(ascii: "<") {
                skip { $0 != UInt8(ascii: ",") }
                skip(Self.isBetweenLinks)
            }
            guard take("<"), let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return nil }
            let target = Self.text(rest[..<end])
            rest = rest[rest.index(after: end)...]
            // if a link has several `rel` parameters, only the first is used; a link with an `anchor` does not start at
            // the response, but at another resource (`hasOtherContext`)
            var relations: String?
            var hasOtherContext = false
            while true {
                skip(Self.isSpace)
                guard take(";") else { break }
                skip { Self.isSpace($0) || $0 == UInt8(ascii: ";") }
                guard let (name, value) = parameter() else { break }
                switch name.lowercased() {
                case "rel": relations = relations ?? value
                case "anchor": hasOtherContext = true
                default: break
                }
            }
            let names = relations?.replacing("\t", with: " ").split(separator: " ") ?? []
            return (target, !hasOtherContext && names.contains { $0.lowercased() == "next" })
        }

        private mutating func parameter() -> (name: String, value: String)? {
            let name = Self.text(takeWhile { !Self.isSpace($0) && !Self.ends($0) && $0 != UInt8(ascii: "=") })
            skip(Self.isSpace)
            guard take("=") else { return name.isEmpty ? nil : (name, "") }
            skip(Self.isSpace)
            guard take("\"") else { return (name, Self.text(takeWhile { !Self.isSpace($0) && !Self.ends($0) })) }
            var value: [UInt8] = []
            while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
                guard byte == UInt8(ascii: "\\") else {
                    value.append(byte)
                    continue
                }
                if let escaped = rest.popFirst() { value.append(escaped) }
            }
            return (name, String(decoding: value, as: UTF8.self))
        }

        private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: scalar) else { return false }
            rest.removeFirst()
            return true
        }

        private mutating func takeWhile(_ condition: (UInt8) -> Bool) -> Substring.UTF8View {
            let taken = rest.prefix(while: condition)
            rest = rest[taken.endIndex...]
            return taken
        }

        private mutating func skip(_ condition: (UInt8) -> Bool) { _ = takeWhile(condition) }

        private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

        private static func isBetweenLinks(_ byte: UInt8) -> Bool { isSpace(byte) || byte == UInt8(ascii: ",") }

        private static func ends(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ";") || byte == UInt8(ascii: ",") }

        private static func text(_ bytes: Substring.UTF8View) -> String { String(decoding: bytes, as: UTF8.self) }
    }
}
