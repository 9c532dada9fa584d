import JSONText
package import SyncModel

/// How far a poller has read: the greatest of the items' times of change.
package enum SinceValue: Sendable, Hashable {
    case time(Timestamp)
    case number(Int64)
    case text(ByteExactString)

    /// The longest text, in bytes.
    package static let maximumBytes = 1_000

    /// The last second of the year 9999.
    private static let lastSecond: Double = 253_402_300_799

    /// Reads an item's value; nil if it has another form.
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

    /// Reads the stored form, or an operator's value; nil for anything else. ``fitting(_:)`` recognizes times.
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

    /// Returns the stored value as the settings interpret it; nil if it does not fit them.
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

    /// Returns the greater of two. Texts are compared by their bytes, and so are a number and a text.
    func max(_ other: SinceValue?) -> SinceValue {
        guard let other else { return self }
        switch (self, other) {
        case (.time(let left), .time(let right)): return left < right ? other : self
        case (.number(let left), .number(let right)): return left < right ? other : self
        default: return plain.utf8.lexicographicallyPrecedes(other.plain.utf8) ? other : self
        }
    }

    /// Limits a time to that moment: a poller that began after it would miss earlier changes.
    func noLater(than moment: Timestamp) -> SinceValue {
        if case .time(let time) = self, time > moment { .time(moment) } else { self }
    }

    /// The value of the request's parameter.
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
