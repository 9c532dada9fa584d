import FoundationEssentials
public import JSONText

/// The reason why the body of an upstream's answer cannot be used.
///
/// The body is missing, is too long, or is not JSON.
public struct UnusableBody: Sendable, Hashable {
    /// The reason. The text continues a sentence that begins with "the body".
    public let reason: String
    /// The first bytes of the body as printable text, without possible secrets.
    ///
    /// Empty if the first bytes are not useful to a reader.
    public let excerpt: String
    /// Whether the body was not read, because it is too long.
    public private(set) var isTooLong = false

    /// The reason for a body that was not read, because it is too long.
    public static func tooLong(limit: Int) -> UnusableBody {
        var body = UnusableBody(reason: "is longer than \(limit) bytes", excerpt: "")
        body.isTooLong = true
        return body
    }

    private init(reason: String, excerpt: String) {
        self.reason = reason
        self.excerpt = excerpt
    }

    /// Creates the reason for a body that is not JSON.
    ///
    /// - Parameters:
    ///   - bytes: the body without a byte order mark, and without white space at its beginning and end.
    ///   - encoding: the value of `Content-Encoding`.
    ///   - error: the parser's error.
    public init(_ bytes: [UInt8], encoding: String?, error: JSONParseError?) {
        if let reason = Self.compression(of: bytes, encoding: encoding) {
            self.init(reason: reason, excerpt: "")
        } else if bytes.isEmpty {
            self.init(reason: "is empty", excerpt: "")
        } else if Self.isUTF16(bytes) {
            self.init(reason: "is UTF-16; JSON is UTF-8 (RFC 8259, 8.1)", excerpt: PrintableExcerpt.of(bytes))
        } else if bytes.first == UInt8(ascii: "<") {
            let isXML = bytes.starts(with: "<?xml".utf8)
            self.init(reason: isXML ? "is XML, not JSON" : "is HTML, not JSON", excerpt: PrintableExcerpt.of(bytes))
        } else if String(validating: bytes, as: UTF8.self) == nil {
            self.init(reason: "is not UTF-8, as JSON must be (RFC 8259, 8.1)", excerpt: PrintableExcerpt.of(bytes))
        } else if error?.kind == .tooDeep {
            let limit = JSONLimits().maximumDepth
            self.init(reason: "is JSON with more than \(limit) nested levels", excerpt: PrintableExcerpt.of(bytes))
        } else {
            let cause = error.map { ": \($0.explanation)" } ?? ""
            let trimmed = cause.hasSuffix(".") ? String(cause.dropLast()) : cause
            self.init(reason: "is not JSON\(trimmed)", excerpt: PrintableExcerpt.of(bytes))
        }
    }

    /// Creates the reason for a body that is a JSON string, and therefore contains no entity.
    ///
    /// Some gateways in front of APIs, and some batch endpoints, put a body of another format into a string.
    init(string text: String) {
        let bytes = Array(text.utf8)
        let first = bytes.first { $0 > 0x20 }
        if first == UInt8(ascii: "<") {
            self.init(reason: "is a JSON string that contains HTML or XML", excerpt: PrintableExcerpt.of(bytes))
        } else if first == UInt8(ascii: "{") || first == UInt8(ascii: "["), (try? JSONTree(parsing: bytes)) != nil {
            self.init(reason: "is a JSON string that contains JSON", excerpt: PrintableExcerpt.of(bytes))
        } else if let decoded = Self.decodedBase64(bytes) {
            // the encoded text would be masked, because it looks like a secret
            self.init(reason: "is a JSON string that contains base64", excerpt: PrintableExcerpt.of(decoded))
        } else {
            self.init(reason: "is a JSON string, not an object", excerpt: PrintableExcerpt.of(bytes))
        }
    }

    /// The decoded text, if the given text is probably base64 or base64url; nil for other texts.
    private static func decodedBase64(_ text: [UInt8]) -> Data? {
        guard text.count >= 8, text.count % 4 != 1 else { return nil }
        let symbols = text.map { $0 == UInt8(ascii: "-") ? UInt8(ascii: "+") : $0 == 0x5f ? UInt8(ascii: "/") : $0 }
        let padding = [UInt8](repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
        // if a plain word is decoded as base64, the result is hardly ever valid text
        guard let decoded = Data(base64Encoded: Data(symbols + padding)), decoded.allSatisfy({ $0 >= 0x09 }),
            String(validating: decoded, as: UTF8.self) != nil
        else { return nil }
        return decoded
    }

    /// The sentence about a compressed body, without its subject; nil if the body is not compressed.
    ///
    /// - Parameters:
    ///   - bytes: the body.
    ///   - encoding: the value of `Content-Encoding`.
    public static func compression(of bytes: [UInt8], encoding: String?) -> String? {
        coding(bytes, encoding).map {
            "is compressed (\($0)), which the request did not allow (Accept-Encoding: identity)"
        }
    }

    /// The content coding, according to the header or the first bytes; nil if the body has no coding.
    private static func coding(_ bytes: [UInt8], _ encoding: String?) -> String? {
        if bytes.starts(with: [0x1f, 0x8b]) { return "gzip" }
        let named = encoding?.lowercased().unicodeScalars.split(whereSeparator: { [",", " ", "\t"].contains($0) })
            .map { Substring($0) }.first { !$0.utf8.elementsEqual("identity".utf8) }
        guard let named else { return nil }
        return HeaderField.isName(String(named)) && named.utf8.count <= 20 ? String(named) : "an unknown coding"
    }

    /// Whether the text is probably in UTF-16.
    ///
    /// Such a text begins with the byte order mark of UTF-16, or one of its first two bytes is 0. In UTF-16, every
    /// ASCII character has a zero byte.
    private static func isUTF16(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: [0xff, 0xfe]) || bytes.starts(with: [0xfe, 0xff]) || bytes.prefix(2).contains(0)
    }
}

/// The beginning of a text that an upstream wrote, for an error message.
enum PrintableExcerpt {
    /// The number of bytes that are read for an excerpt.
    static let maximumBytes = 80
    /// The words that may precede a secret. An excerpt ends at such a word.
    private static let secretWords = [
        "password", "passwd", "secret", "token", "bearer", "authorization", "apikey", "api_key", "api-key", "cookie",
        "session", "credential",
    ]

    /// Returns up to ``maximumBytes`` bytes as text.
    ///
    /// Characters other than letters, digits, punctuation and symbols are replaced by `·`, and a text that may be a
    /// token is replaced by `[…]`. The text ends at a word that may precede a secret.
    static func of(_ bytes: some Collection<UInt8>) -> String {
        var text = ""
        for scalar in String(decoding: bytes.prefix(maximumBytes), as: UTF8.self).unicodeScalars {
            text.unicodeScalars.append(isPrintable(scalar) ? scalar : "·")
        }
        let lowercased = text.lowercased()
        for word in secretWords {
            guard let found = lowercased.range(of: word) else { continue }
            let count = lowercased.distance(from: lowercased.startIndex, to: found.upperBound)
            text = String(text.prefix(count)) + "[…]"
            break
        }
        return masked(text)
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return (0x20...0x7e).contains(scalar.value) }
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .decimalNumber,
            .dashPunctuation, .openPunctuation, .closePunctuation, .initialPunctuation, .finalPunctuation,
            .otherPunctuation, .mathSymbol, .currencySymbol:
            return scalar != "\u{FFFD}"
        default: return false
        }
    }

    /// Replaces runs of characters that may contain a secret.
    ///
    /// A run consists of the characters of tokens, keys and URLs. A run is replaced if it has 20 or more characters and
    /// a digit among them, or if it may be a URL with credentials.
    private static func masked(_ text: String) -> String {
        var output = ""
        var run = ""
        func flush() {
            let isLong = run.utf8.count >= 20 && run.contains(where: \.isNumber)
            output += isLong || run.contains("@") && run.contains("//") ? "[…]" : run
            run = ""
        }
        for character in text {
            if character.isASCII, character.isLetter || character.isNumber || "+/=_-.~:@%".contains(character) {
                run.append(character)
            } else {
                flush()
                output.append(character)
            }
        }
        flush()
        return output
    }
}
