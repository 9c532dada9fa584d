import Glibc
package import Logging

/// Writes a line for a person: time (UTC), level, message, `key=value`. The level is coloured on a terminal, unless
/// `NO_COLOR` is set.
///
/// Control characters are escaped everywhere: what a client sent must neither forge a line nor drive the terminal.
package struct TextLogHandler: LogHandler {
    package var logLevel: Logger.Level = .info
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let writer: LineWriter
    private let colours: Bool

    /// A handler for the logger of this label.
    ///
    /// - Parameter colours: whether to colour the level; nil asks the terminal.
    package init(
        label: String,
        metadataProvider: Logger.MetadataProvider? = nil,
        writer: LineWriter = .standardOutput,
        colours: Bool? = nil
    ) {
        self.label = label
        self.metadataProvider = metadataProvider
        self.writer = writer
        self.colours = colours ?? (writer.isTerminal && getenv("NO_COLOR") == nil)
    }

    package subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var line: [UInt8] = []
        line.reserveCapacity(256)
        LogTime.now().append(separator: UInt8(ascii: " "), zone: false, to: &line)
        line.append(UInt8(ascii: " "))
        appendLevel(event.level, to: &line)
        line.append(UInt8(ascii: " "))
        Self.appendEscaped(event.message.description, quotes: false, to: &line)
        for (key, value) in event.metadata(over: metadata, provider: metadataProvider) {
            line.append(UInt8(ascii: " "))
            Self.appendEscaped(key, quotes: false, to: &line)
            line.append(UInt8(ascii: "="))
            Self.appendValue("\(value)", to: &line)
        }
        line.append(UInt8(ascii: "\n"))
        writer.write(line)
    }

    private func appendLevel(_ level: Logger.Level, to line: inout [UInt8]) {
        let (name, colour) = Self.presentation(of: level)
        line.append(contentsOf: (colours ? "\u{1B}[\(colour)m\(name)\u{1B}[0m" : name).utf8)
    }

    /// Five characters wide, so that messages stand under each other, and an ANSI colour.
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

    private static func appendValue(_ text: String, to line: inout [UInt8]) {
        let plain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") && $0 != 0x7F }
        if plain {
            appendEscaped(text, quotes: false, to: &line)
        } else {
            line.append(UInt8(ascii: "\""))
            appendEscaped(text, quotes: true, to: &line)
            line.append(UInt8(ascii: "\""))
        }
    }

    /// C0 and C1 controls and DEL become `\n`, `\t` or `\u{…}`.
    private static func appendEscaped(_ text: String, quotes: Bool, to line: inout [UInt8]) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": line.append(contentsOf: #"\n"#.utf8)
            case "\t": line.append(contentsOf: #"\t"#.utf8)
            case "\"" where quotes: line.append(contentsOf: #"\""#.utf8)
            case "\\" where quotes: line.append(contentsOf: #"\\"#.utf8)
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}":
                line.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".utf8)
            default: line.append(contentsOf: UTF8.encode(scalar).map { Array($0) } ?? [])
            }
        }
    }
}
