import JSONText
import SyncModel

/// A path with its query, below an upstream's base URL.
struct PollPath: Sendable, Hashable {
    /// The longest that is followed, in bytes.
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

    /// Why a reference is not followed; completes "the next page ".
    struct Refused: Error, Equatable {
        let reason: String
    }

    /// Resolves a reference (RFC 3986, 5.2) in a response to a request for this path.
    ///
    /// It is followed only if the result is below the base URL, because requests carry the upstream's credential.
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

    /// The path from the host on.
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
        let name = host.hasSuffix(port) ? String(host.dropLast(port.count)) : host
        guard ["http", "https"].contains(scheme.lowercased()), isTLS == base.isTLS, name == base.host else {
            let shown = String(name.prefix(100)).replacing("@", with: "")
            throw Refused(reason: "is at another origin (\(scheme.lowercased().prefix(20))://\(shown))")
        }
        let path = text[authority.endIndex...]
        return path.hasPrefix("/") ? String(path) : "/" + path
    }
}

extension BaseURL {
    /// From the host on; empty for none.
    var path: String {
        let rest = text.dropFirst(isTLS ? "https://".count : "http://".count)
        return String(rest.from("/"))
    }
}
