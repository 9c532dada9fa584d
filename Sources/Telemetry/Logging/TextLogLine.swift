import Logging

/// A line for a person: time (UTC), level, message, `key=value`.
///
/// Control characters are escaped everywhere: a text from a client must neither forge a line nor drive the terminal.
struct TextLogLine {
    private(set) var bytes: [UInt8] = []

    init(_ event: LogEvent, _ metadata: [(key: String, value: Logger.MetadataValue)], colours: Bool) {
        bytes.reserveCapacity(256)
        LogTime.now().append(separator: UInt8(ascii: " "), zone: false, to: &bytes)
        bytes.append(UInt8(ascii: " "))
        append(event.level, colours: colours)
        bytes.append(UInt8(ascii: " "))
        append(event.message.description)
        for (key, value) in metadata {
            bytes.append(UInt8(ascii: " "))
            append(key)
            bytes.append(UInt8(ascii: "="))
            append(value: "\(value)")
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    private mutating func append(_ level: Logger.Level, colours: Bool) {
        let (name, colour) = Self.presentation(of: level)
        bytes.append(contentsOf: (colours ? "\u{1B}[\(colour)m\(name)\u{1B}[0m" : name).utf8)
    }

    /// The level's name in five characters, so that messages align, and an ANSI colour.
    private static func presentation(of level: Logger.Level) -> (name: String, colour: Int) {
        switch level {
        case .trace: ("TRACE", 90)
        case .debug: ("DEBUG", 90)
        case .info: ("INFO ", 32)
        case .notice: ("NOTE ", 36)
        case .warning: ("WARN ", 33)
        case .error: ("ERROR", 31)
        case .critical: ("CRIT ", 35)
        }
    }

    private mutating func append(value text: String) {
        let plain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") && $0 != 0x7F }
        if plain {
            append(text)
        } else {
            bytes.append(UInt8(ascii: "\""))
            append(text, quotes: true)
            bytes.append(UInt8(ascii: "\""))
        }
    }

    /// C0 and C1 controls and DEL become `\n`, `\t` or `\u{…}`.
    private mutating func append(_ text: String, quotes: Bool = false) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": bytes.append(contentsOf: #"\n"#.utf8)
            case "\t": bytes.append(contentsOf: #"\t"#.utf8)
            case "\"" where quotes: bytes.append(contentsOf: #"\""#.utf8)
            case "\\" where quotes: bytes.append(contentsOf: #"\\"#.utf8)
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}":
                bytes.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".utf8)
            default: bytes.append(contentsOf: UTF8.encode(scalar).map { Array($0) } ?? [])
            }
        }
    }
}
