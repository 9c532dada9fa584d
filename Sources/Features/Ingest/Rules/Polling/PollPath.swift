import JSONText
package import SyncModel

/// A path with its query, below an upstream's base URL.
struct PollPath: Sendable, Hashable {
    /// The longest path that is followed, in bytes.
    static let maximumBytes = 8_000

    @Exact private(set) var text: String

    init(_ text: String) {
        self.text = text
    }

    /// The names of the query's parameters, decoded.
    var parameters: [String] {
        guard let query = text.firstIndex(of: "?") else { return [] }
        return text[text.index(after: query)...].split(separator: "&").map { pair in
            String(decoding: PercentEncoding.decoded(pair.before("=").utf8), as: UTF8.self)
        }
    }

    mutating func add(_ parameter: String, _ value: String) {
        let separator = text.contains("?") ? (text.hasSuffix("?") || text.hasSuffix("&") ? "" : "&") : "?"
        let name = String(decoding: PercentEncoding.encoded(parameter), as: UTF8.self)
        text += separator + name + "=" + String(decoding: PercentEncoding.encoded(value), as: UTF8.self)
    }

    /// The reason why a reference is not followed. The text continues a sentence that starts with "the next page".
    struct Refused: Error, Equatable {
        let reason: String
    }

    /// Resolves a reference (RFC 3986, section 5.2) from a response to a request for this path.
    ///
    /// A reference to a place outside the base URL is refused, because requests carry the upstream's credential.
    func following(_ reference: String, below base: BaseURL) throws(Refused) -> PollPath {
        guard reference.utf8.count <= Self.maximumBytes else { throw Refused(reason: "has a URL that is too long") }
        guard reference.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw Refused(reason: "has a URL with invalid characters")
        }
        let reference = reference.before("#")
        let full = try fullPath(String(reference), base)
        guard full == base.path || full.hasPrefix(base.path + "/") || full.hasPrefix(base.path + "?") else {
            throw Refused(reason: "is not below the upstream's base URL")
        }
        var text = String(full.dropFirst(base.path.count))
        if !text.hasPrefix("/") { text = "/" + text }
        if let problem = PathRules.problem(in: text) { throw Refused(reason: "has a URL whose path \(problem)") }
        return PollPath(text)
    }

    /// Returns the resolved reference without scheme and host.
    private func fullPath(_ reference: String, _ base: BaseURL) throws(Refused) -> String {
        if let scheme = Self.scheme(of: reference) {
            let rest = reference.dropFirst(scheme.count + 1)
            guard rest.hasPrefix("//") else { throw Refused(reason: "has a URL of an unsupported form") }
            return try Self.path(ofAuthority: rest.dropFirst(2), isTLS: scheme.lowercased() == "https", base, scheme)
        }
        if reference.hasPrefix("//") {
            let scheme = base.isTLS ? "https" : "http"
            return try Self.path(ofAuthority: reference.dropFirst(2), isTLS: base.isTLS, base, Substring(scheme))
        }
        let current = base.path + text
        let path = current.before("?")
        return switch reference.first {
        case nil: current
        case "/"?: reference
        case "?"?: path + reference
        default: path[...(path.lastIndex(of: "/") ?? path.startIndex)] + reference
        }
    }

    private static func scheme(of reference: String) -> Substring? {
        let name = reference.before(":", "/", "?")
        guard name.endIndex < reference.endIndex, reference[name.endIndex] == ":", name.first?.isLetter == true else {
            return nil
        }
        return name
    }

    private static func path(
        ofAuthority text: Substring,
        isTLS: Bool,
        _ base: BaseURL,
        _ scheme: Substring
    ) throws(Refused) -> String {
        let authority = text.before("/", "?", "\\")
        let host = authority.lowercased()
        let port = isTLS ? ":443" : ":80"
        // drops Unicode scalars, because the colon of the suffix can be a part of a `Character` that begins before it
        let name = host.hasSuffix(port) ? String(host.unicodeScalars.dropLast(port.count)) : host
        guard ["http", "https"].contains(scheme.lowercased()), isTLS == base.isTLS, name == base.host else {
            let shown = String(name.prefix(100)).replacing("@", with: "")
            throw Refused(reason: "is at another origin (\(scheme.lowercased().prefix(20))://\(shown))")
        }
        let path = text[authority.endIndex...]
        return path.hasPrefix("/") ? String(path) : "/" + path
    }
}

extension BaseURL {
    /// The part of the URL after the host; empty if the URL ends with the host.
    var path: String {
        let rest = text.dropFirst(isTLS ? "https://".count : "http://".count)
        return String(rest.from("/"))
    }
}

// MARK: - SinceValue

/// The position of a poller: the greatest time of change among the items.
package enum SinceValue: Sendable, Hashable {
    case time(Timestamp)
    case number(Int64)
    case text(ByteExactString)

    /// The maximum length of a text, in bytes.
    package static let maximumBytes = 1_000

    /// The last second of the year 9999.
    private static let lastSecond: Double = 253_402_300_799

    /// Reads the value from an item; nil if the value does not have the given form.
    init?(_ value: JSONValue, _ form: PollerSettings.Since.Form) {
        let unit: Double
        switch form {
        case .text:
            self.init(stored: value)
            return
        case .rfc3339:
            guard let time = value.timestamp else { return nil }
            self = .time(time)
            return
        case .seconds: unit = 1
        case .milliseconds: unit = 1_000
        }
        if let time = value.timestamp {
            self = .time(time)
            return
        }
        let digits = value.string ?? (value.kind == .number ? String(decoding: value.raw, as: UTF8.self) : "")
        guard digits.utf8.count <= 40, let number = Double(digits), (0...Self.lastSecond).contains(number / unit) else {
            return nil
        }
        self = .time(Timestamp(microseconds: Int64((number / unit * 1_000_000).rounded(.down))))
    }

    /// Reads a stored value or an operator's value; nil for other JSON. A time is read as a text, which ``fitting(_:)``
    /// then converts to a time.
    init?(stored value: JSONValue) {
        if let number = value.int64 {
            self = .number(number)
        } else if let text = value.string, Self.isAcceptable(text) {
            self = .text(ByteExactString(text))
        } else {
            return nil
        }
    }

    private static func isAcceptable(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...maximumBytes).contains(bytes.count) && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }

    /// Converts the stored value to a form; nil if the value does not have this form.
    func fitting(_ form: PollerSettings.Since.Form) -> SinceValue? {
        var writer = JSONWriter()
        write(to: &writer)
        return (try? JSONTree(parsing: writer.bytes)).flatMap { SinceValue($0.root, form) }
    }

    func write(to writer: inout JSONWriter) {
        switch self {
        case .time(let time): writer.string(time.rfc3339)
        case .number(let number): writer.int(number)
        case .text(let text): writer.string(text.string)
        }
    }

    /// Returns the greater of two values. Two texts are compared by their bytes, and so are a number and a text.
    func max(_ other: SinceValue?) -> SinceValue {
        guard let other else { return self }
        switch (self, other) {
        case (.time(let left), .time(let right)): return left < right ? other : self
        case (.number(let left), .number(let right)): return left < right ? other : self
        default: return plain.utf8.lexicographicallyPrecedes(other.plain.utf8) ? other : self
        }
    }

    /// Returns this time, or the moment if the moment is earlier. If a position were later than the beginning of its
    /// pass, the next pass could miss changes.
    func noLater(than moment: Timestamp) -> SinceValue {
        if case .time(let time) = self, time > moment { .time(moment) } else { self }
    }

    /// Returns the value of the request's query parameter.
    func parameter(_ since: PollerSettings.Since) -> String {
        guard case .time(let time) = self else { return plain }
        let moment = Timestamp(
            microseconds: Swift.max(0, time.microseconds - Int64(since.overlapSeconds) * 1_000_000)
        )
        return switch since.form {
        case .seconds: String(moment.seconds)
        case .milliseconds: String(moment.microseconds / 1_000)
        case .rfc3339, .text: moment.rfc3339
        }
    }

    private var plain: String {
        switch self {
        case .time(let time): time.rfc3339
        case .number(let number): String(number)
        case .text(let text): text.string
        }
    }
}
