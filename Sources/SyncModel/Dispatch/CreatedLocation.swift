import FoundationEssentials
import JSONText

/// Decides whether a `Location` in the response to a create is the URL of the created entity.
///
/// A `Location` can be the URL of something else, for example of a job, a page for people, or another service. A
/// `Location` identifies the created entity only if the URL is on the upstream's host, and below the collection to
/// which the create was sent. The entity's id is the segment after the collection's path, or an OData key in the last
/// segment.
struct CreatedLocation {
    /// The result of examining a `Location`.
    enum Finding: Hashable {
        case entity(ServerID)
        /// The `Location` is on another host, or in another collection.
        case elsewhere
        /// The `Location` is in the collection, but contains no text that can be an id.
        case withoutID
        /// The `Location` contains bytes that are not UTF-8, and its text is unknown.
        case unreadable
    }

    private let base: BaseURL?
    private let baseSegments: [String]
    /// The segments of the collection's path, including the path of the base URL.
    private let collection: [String]
    private let path: String

    /// - Parameters:
    ///   - path: the request's path below the base URL.
    ///   - clientID: the id that the client gave to the entity. If the path ends with this id, the collection's path is
    ///     the part before the id.
    init(_ upstream: UpstreamSettings, path: String, clientID: String?) {
        base = try? upstream.base.get()
        let basePath = base.map { Self.path(in: $0.text) } ?? ""
        self.path = basePath + path.before("?")
        baseSegments = Self.segments(basePath) ?? []
        var segments = Self.segments(self.path) ?? []
        if let clientID, segments.last == clientID { segments.removeLast() }
        collection = segments
    }

    /// - Parameter location: the header's text. In this text, HTTP libraries have replaced bytes that are not UTF-8 by
    ///   U+FFFD. A text with U+FFFD contains no usable id, because ids that differ only in the replaced bytes would
    ///   become equal.
    func finding(in location: String) -> Finding {
        guard !location.unicodeScalars.contains("\u{fffd}") else { return .unreadable }
        let text = location.trimmed.before("?", "#")
        guard !text.contains("\\"), let reference = reference(text) else { return .elsewhere }
        let findings = reference.map { id(in: $0) }
        return findings.first { $0 != .elsewhere } ?? .elsewhere
    }

    // MARK: - References (RFC 3986, 4.1 and 5.2)

    /// The possible paths of a reference; nil if the reference points to another host.
    private func reference(_ text: Substring) -> [String]? {
        var rest = text
        var scheme = base.map { $0.isTLS ? "https" : "http" } ?? "http"
        if let colon = text.firstIndex(of: ":"), Self.isScheme(text[..<colon]) {
            scheme = text[..<colon].lowercased()
            rest = text[text.index(after: colon)...]
            guard scheme == "http" || scheme == "https", rest.hasPrefix("//") else { return nil }
        }
        if rest.hasPrefix("//") {
            let authority = rest.dropFirst(2).before("/")
            guard isOwn(authority, isTLS: scheme == "https") else { return nil }
            return [String(rest[authority.endIndex...])]
        }
        if rest.hasPrefix("/") { return [String(rest)] }
        guard !rest.isEmpty else { return nil }
        // RFC 3986 resolves the reference relative to the last slash; many servers send a reference relative to the
        // collection
        let directory = path.hasSuffix("/") ? path : path + "/"
        let parent = path[...(path.lastIndex(of: "/") ?? path.startIndex)]
        return [String(parent) + rest, directory + rest]
    }

    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.first, first.isASCII, first.isLetter else { return false }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122, 0x2b, 0x2d, 0x2e: true
            default: false
            }
        }
    }

    /// Whether an authority equals the authority of the base URL.
    ///
    /// The comparison omits default ports. If a proxy terminates TLS, the two URLs may have different schemes with
    /// different default ports.
    private func isOwn(_ authority: Substring, isTLS: Bool) -> Bool {
        guard let base else { return false }
        let host = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        return Self.normalized(host, isTLS: isTLS) == Self.normalized(base.host[...], isTLS: base.isTLS)
    }

    /// Host and port in lower case, without the scheme's default port.
    ///
    /// A dot at the end of the name is removed, too.
    private static func normalized(_ authority: Substring, isTLS: Bool) -> String {
        var text = authority.lowercased()
        let port = isTLS ? ":443" : ":80"
        // scalars are removed instead of characters, because a colon or dot can form one character with the scalar
        // before it, and this scalar must remain
        if text.hasSuffix(port) { text.unicodeScalars.removeLast(port.count) }
        if text.hasSuffix(":") { text.unicodeScalars.removeLast() }
        if text.hasSuffix(".") { text.unicodeScalars.removeLast() }
        return text
    }

    // MARK: - Paths

    private static func path(in url: String) -> String {
        guard let authority = url.range(of: "//") else { return "" }
        return String(url[authority.upperBound...].from("/"))
    }

    /// The segments of a path, percent-decoded; nil for a path that is not UTF-8.
    ///
    /// Empty segments are omitted, and `.` and `..` are resolved.
    private static func segments(_ path: String) -> [String]? {
        var segments: [String] = []
        for part in path.utf8.split(separator: UInt8(ascii: "/")) {
            guard let text = String(validating: PercentEncoding.decoded(part), as: UTF8.self) else { return nil }
            switch text {
            case ".": break
            case "..": _ = segments.popLast()
            default: segments.append(text)
            }
        }
        return segments
    }

    private func id(in path: String) -> Finding {
        guard let segments = Self.segments(path) else { return .unreadable }
        guard let last = segments.last else { return .elsewhere }
        let parent = Array(segments.dropLast())
        // the last segment of the collection's path has a key: `/contacts(77)`
        if let key = ODataKey(segment: last), isCollection(parent + [key.name]) {
            return key.id.map { .entity($0) } ?? .withoutID
        }
        // the segment after the collection's path repeats the collection's name with a key: `/contacts/contacts(77)`
        if let key = ODataKey(segment: last), isCollection(parent), isName(key.name, of: parent) {
            return key.id.map { .entity($0) } ?? .withoutID
        }
        guard isCollection(parent) else { return isCollection(segments) ? .withoutID : .elsewhere }
        return ServerID(pathText: last).map { .entity($0) } ?? .withoutID
    }

    /// Whether the segments are the path of the request's collection.
    ///
    /// The segments are a `Location`'s path without the entity's id. They match if they are equal to the collection's
    /// path, or to the end of the collection's path. If both paths begin with the base URL's path, it is sufficient
    /// that the parts after the base URL's path match in this way. The comparison ignores case, because many servers
    /// normalize the case.
    ///
    /// The end of the collection's path is sufficient for two reasons. A server behind a proxy may omit the first
    /// segments of the base URL. Many servers use a direct path (`/items/77`) for an entity of a nested collection
    /// (`/lists/5/items`).
    private func isCollection(_ segments: [String]) -> Bool {
        let (found, own) = (segments.map(Self.folded), collection.map(Self.folded))
        if found == own { return true }
        if Self.isEnd(found, of: own) { return true }
        let base = baseSegments.map(Self.folded)
        return found.starts(with: base) && own.starts(with: base)
            && Self.isEnd(Array(found.dropFirst(base.count)), of: Array(own.dropFirst(base.count)))
    }

    private func isName(_ name: String, of collection: [String]) -> Bool {
        collection.last.map { Self.folded($0) == Self.folded(name) } ?? false
    }

    private static func isEnd(_ found: [[UInt8]], of own: [[UInt8]]) -> Bool {
        !found.isEmpty && found.count < own.count && own.suffix(found.count).elementsEqual(found)
    }

    private static func folded(_ segment: String) -> [UInt8] {
        segment.utf8.map { (65...90).contains($0) ? $0 + 32 : $0 }
    }
}

// MARK: - ODataKey

/// A path segment that identifies an entity by its key, as in OData.
///
/// Examples are `Contacts(77)`, `Contacts('abc')` and `Contacts(id=77)`.
struct ODataKey {
    /// The name of the entity set or of the navigation property, which is the text before the parenthesis.
    let name: String
    /// The key; nil if the key has several parts, or has a form that ids do not have.
    let id: ServerID?

    /// - Parameter segment: the segment, percent-decoded.
    init?(segment: String) {
        let bytes = Array(segment.utf8)
        guard bytes.last == UInt8(ascii: ")"), let open = bytes.firstIndex(of: UInt8(ascii: "(")), open > 0 else {
            return nil
        }
        name = String(decoding: bytes[..<open], as: UTF8.self)
        id = Self.id(bytes[(open + 1)...].dropLast())
    }

    private static let quote = UInt8(ascii: "'")

    private static func id(_ text: ArraySlice<UInt8>) -> ServerID? {
        var value = text
        // a key with a single part may be written with the name of its property
        let plain = text.prefix { $0 != quote }
        if let equals = plain.firstIndex(of: UInt8(ascii: "=")) { value = text[(equals + 1)...] }
        guard let first = value.first else { return nil }
        if first == quote { return quoted(value).flatMap { ServerID(pathText: $0, isText: true) } }
        // the form of earlier OData versions: guid'…'
        if let open = value.firstIndex(of: quote) {
            let form = String(decoding: value[..<open], as: UTF8.self).lowercased()
            guard form == "guid", let text = quoted(value[open...]), let uuid = UUID(parsing: text) else { return nil }
            return ServerID(uuid)
        }
        var bare = String(decoding: value, as: UTF8.self)
        guard bare != "null", !bare.utf8.contains(where: ",=()".utf8.contains) else { return nil }
        // the form of earlier OData versions: 77L
        if bare.hasSuffix("L") || bare.hasSuffix("l"), ServerID.isInteger(String(bare.dropLast())) { bare.removeLast() }
        return ServerID(pathText: bare)
    }

    /// The text between quotes, with each doubled quote replaced by a single quote.
    ///
    /// Nil if the text does not begin and end with a quote.
    private static func quoted(_ text: ArraySlice<UInt8>) -> String? {
        guard text.count >= 2, text.first == quote, text.last == quote else { return nil }
        var output: [UInt8] = []
        var rest = text.dropFirst().dropLast()
        while let byte = rest.popFirst() {
            if byte == quote {
                guard rest.popFirst() == quote else { return nil }
            }
            output.append(byte)
        }
        return String(validating: output, as: UTF8.self)
    }
}

extension ServerID {
    /// Creates an id from its text in a path.
    ///
    /// A text in the form of an integer becomes an integer, because a path does not distinguish numbers from strings.
    ///
    /// - Parameter isText: whether the path marks the id as text, as OData's quotes do.
    init?(pathText text: String, isText: Bool = false) {
        if !isText, ServerID.isInteger(text), text.utf8.count <= Self.maximumBytes, text != "-0" {
            self.init(text: text, isInteger: true)
        } else if let uuid = UUID(parsing: text) {
            self.init(uuid)
        } else {
            var writer = JSONWriter()
            writer.string(text)
            guard let value = try? JSONTree(parsing: writer.bytes).root else { return nil }
            self.init(json: value)
        }
    }
}
