import Logging

/// A log line as a JSON object.
///
/// It has `time` (RFC 3339, UTC, milliseconds), `level`, `message`, `logger`, and each metadata key as a further
/// member.
///
/// Numbers and truth values given as `.stringConvertible` stay JSON numbers and booleans; dictionaries and arrays keep
/// their shape. A metadata key that is one of the four names above gets an underscore at its end.
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
        // JSON has neither infinity nor not-a-number; they become strings.
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
