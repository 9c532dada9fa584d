import Glibc
import Logging

/// A log line as a JSON object.
///
/// The object has the members `time` (RFC 3339, UTC, milliseconds), `level`, `message` and `logger`, and one member for
/// each metadata key.
///
/// Metadata values that are numbers or booleans in `.stringConvertible` become JSON numbers or booleans. Dictionaries
/// and arrays become JSON objects and arrays. If a metadata key equals one of the four names above, an underscore is
/// appended to the key.
struct JSONLogLine {
    private static let reserved: [String] = ["time", "level", "message", "logger"]

    private(set) var bytes: [UInt8] = []

    init(_ event: LogEvent, _ metadata: [(key: String, value: Logger.MetadataValue)], logger: String) {
        bytes.reserveCapacity(512)
        bytes.append(UInt8(ascii: "{"))
        add("time", time: .now())
        add("level", event.level.rawValue)
        add("message", event.message.description)
        add("logger", logger)
        for (key, value) in metadata { add(Self.reserved.contains(key) ? key + "_" : key, value) }
        bytes.append(contentsOf: "}\n".utf8)
    }

    private mutating func add(_ name: StaticString, time: LogTime) {
        begin(name.description)
        bytes.append(UInt8(ascii: "\""))
        time.append(to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func add(_ name: String, _ text: String) {
        begin(name)
        append(text)
    }

    private mutating func add(_ name: String, _ value: Logger.MetadataValue) {
        begin(name)
        append(value)
    }

    private mutating func begin(_ name: String) {
        if bytes.last != UInt8(ascii: "{") { bytes.append(UInt8(ascii: ",")) }
        append(name)
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func append(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let text):
            append(text)
        case .stringConvertible(let value):
            if let literal = Self.literal(value) {
                bytes.append(contentsOf: literal.utf8)
            } else {
                append(value.description)
            }
        case .dictionary(let members):
            bytes.append(UInt8(ascii: "{"))
            for (name, value) in members.sorted(by: { $0.key < $1.key }) { add(name, value) }
            bytes.append(UInt8(ascii: "}"))
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(element)
            }
            bytes.append(UInt8(ascii: "]"))
        }
    }

    private static func literal(_ value: any CustomStringConvertible & Sendable) -> String? {
        switch value {
        case let value as Bool: value ? "true" : "false"
        case let value as any BinaryInteger: value.description
        // Infinity and not-a-number become strings, because JSON has no such numbers.
        case let value as Double: value.isFinite ? value.description : nil
        case let value as Float: value.isFinite ? value.description : nil
        default: nil
        }
    }

    private mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""): bytes.append(contentsOf: #"\""#.utf8)
            case UInt8(ascii: "\\"): bytes.append(contentsOf: #"\\"#.utf8)
            case UInt8(ascii: "\n"): bytes.append(contentsOf: #"\n"#.utf8)
            case UInt8(ascii: "\r"): bytes.append(contentsOf: #"\r"#.utf8)
            case UInt8(ascii: "\t"): bytes.append(contentsOf: #"\t"#.utf8)
            case 0..<0x20:
                bytes.append(contentsOf: ((byte < 16 ? #"\u000"# : #"\u00"#) + String(byte, radix: 16)).utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}

// MARK: - TextLogLine

/// A log line for a person: time (UTC), level, message and `key=value` pairs.
///
/// Control characters are escaped everywhere, because a text from a client must neither forge a line nor control the
/// terminal.
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

    /// Returns the level's name, padded to five characters so that messages are aligned, and the number of the level's
    /// ANSI color.
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

    /// Appends a text, in which C0 and C1 control characters and DEL are replaced by `\n`, `\t` or `\u{…}`.
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

// MARK: - LogTime

/// The time of a log line.
///
/// This type formats the time itself, because a formatter object would take more time than the rest of the line.
struct LogTime {
    /// The milliseconds since 1970-01-01T00:00:00Z.
    let milliseconds: Int64

    static func now() -> LogTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return LogTime(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// Appends `2026-11-20T07:00:00.000Z` (RFC 3339), for years from 0 to 9999.
    ///
    /// Text lines have a space between date and time.
    func append(separator: UInt8 = UInt8(ascii: "T"), zone: Bool = true, to bytes: inout [UInt8]) {
        let (days, millisecond) = milliseconds.quotientAndRemainder(flooredBy: 86_400_000)
        let (year, month, day) = Self.civil(fromDays: days)
        appendDigits(year, 4, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        appendDigits(month, 2, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        appendDigits(day, 2, to: &bytes)
        bytes.append(separator)
        appendDigits(millisecond / 3_600_000, 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        appendDigits(millisecond / 60_000 % 60, 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        appendDigits(millisecond / 1_000 % 60, 2, to: &bytes)
        bytes.append(UInt8(ascii: "."))
        appendDigits(millisecond % 1_000, 3, to: &bytes)
        if zone { bytes.append(UInt8(ascii: "Z")) }
    }

    /// The proleptic Gregorian date.
    ///
    /// The computation uses years that begin on 1 March, so that a leap day is the last day of its year. It combines
    /// 400 such years to an era.
    private static func civil(fromDays days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = (days + 719_468).quotientAndRemainder(flooredBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }

    private func appendDigits(_ value: Int64, _ width: Int, to bytes: inout [UInt8]) {
        var divisor: Int64 = 1
        for _ in 1..<width { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }
}

extension Int64 {
    /// Divides and rounds towards minus infinity, so that times before 1970 are on the right day.
    fileprivate func quotientAndRemainder(flooredBy divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
