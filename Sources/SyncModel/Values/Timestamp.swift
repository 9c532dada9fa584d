import JSONText

/// A point in time with a precision of microseconds, as in PostgreSQL's `timestamptz`.
///
/// This type has its own code for RFC 3339, because Foundation's formatters take tens of microseconds on Linux.
public struct Timestamp: Sendable, Hashable, Comparable {
    /// Microseconds since 1970-01-01T00:00:00Z.
    public var microseconds: Int64

    public init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// The number of seconds since the Unix epoch, rounded down.
    public var seconds: Int64 {
        microseconds >= 0 ? microseconds / 1_000_000 : (microseconds - 999_999) / 1_000_000
    }

    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.microseconds < right.microseconds
    }

    /// The time from this moment to `now`, in seconds; 0 for a moment in the future.
    public func age(at now: Timestamp) -> Double { Double(max(0, now.microseconds - microseconds)) / 1_000_000 }

    /// The moment that is `seconds` later, or earlier if `seconds` is negative.
    public func adding(seconds: Double) -> Timestamp {
        Timestamp(microseconds: microseconds + Int64(seconds * 1_000_000))
    }
}

/// The clock. The executable uses the system's clock, and tests use a clock that they control.
public typealias TimeSource = @Sendable () -> Timestamp

// MARK: - RFC 3339

extension Timestamp {
    /// Reads an RFC 3339 date-time.
    ///
    /// For example `2026-11-20T07:00:00.000Z` or `2026-11-20T08:00:00+01:00`.
    ///
    /// Fractions smaller than a microsecond are truncated. Years range from 0001 to 9999 in UTC. A leap second (`:60`)
    /// is read as the first second of the next minute. Nil for any other text.
    public init?(rfc3339 text: String) {
        var text = text
        guard let moment = text.withUTF8(Timestamp.init(rfc3339:)) else { return nil }
        self = moment
    }

    /// Reads an RFC 3339 date-time from its bytes.
    init?(rfc3339 text: UnsafeBufferPointer<UInt8>) {
        var reader = DigitReader(text)
        guard let year = reader.digits(4), year >= 1, reader.skip("-"), let month = reader.digits(2),
            (1...12).contains(month), reader.skip("-"), let day = reader.digits(2),
            day >= 1, day <= Timestamp.daysInMonth(month, year: year),
            reader.skip("T", or: "t"), let hour = reader.digits(2), hour <= 23, reader.skip(":"),
            let minute = reader.digits(2), minute <= 59, reader.skip(":"),
            let second = reader.digits(2), second <= 60
        else { return nil }
        var micros = 0
        if reader.skip(".") {
            guard let fraction = reader.fraction() else { return nil }
            micros = fraction
        }
        var offsetMinutes = 0
        if !reader.skip("Z", or: "z") {
            let sign: Int
            if reader.skip("+") { sign = 1 } else if reader.skip("-") { sign = -1 } else { return nil }
            guard let hours = reader.digits(2), hours <= 23, reader.skip(":"), let minutes = reader.digits(2),
                minutes <= 59
            else { return nil }
            offsetMinutes = sign * (hours * 60 + minutes)
        }
        guard reader.isAtEnd else { return nil }
        let days = Timestamp.daysSinceEpoch(year: year, month: month, day: day)
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offsetMinutes * 60
        // after the conversion to UTC, the time may be in a year that cannot be written
        guard (Timestamp.firstSecond...Timestamp.lastSecond).contains(seconds) else { return nil }
        self.init(microseconds: Int64(seconds) * 1_000_000 + Int64(micros))
    }

    /// 0001-01-01T00:00:00Z.
    private static let firstSecond = daysSinceEpoch(year: 1, month: 1, day: 1) * 86_400
    /// 9999-12-31T23:59:59Z.
    private static let lastSecond = (daysSinceEpoch(year: 9_999, month: 12, day: 31) + 1) * 86_400 - 1

    /// The time in RFC 3339, in UTC with milliseconds. All answers use this form.
    ///
    /// For example `2026-11-20T07:00:00.000Z`.
    public var rfc3339: String {
        String(unsafeUninitializedCapacity: 24) { buffer in
            var days = microseconds / 86_400_000_000
            var rest = microseconds % 86_400_000_000
            if rest < 0 {
                rest += 86_400_000_000
                days -= 1
            }
            let (year, month, day) = Timestamp.civil(daysSinceEpoch: Int(days))
            let millis = Int(rest / 1_000)
            var at = 0
            func put(_ value: Int, width: Int) {
                var value = value
                for index in stride(from: at + width - 1, through: at, by: -1) {
                    buffer[index] = UInt8(48 + value % 10)
                    value /= 10
                }
                at += width
            }
            func put(_ byte: Unicode.Scalar) {
                buffer[at] = UInt8(truncatingIfNeeded: byte.value)
                at += 1
            }
            put(max(0, min(9999, year)), width: 4)
            put("-")
            put(month, width: 2)
            put("-")
            put(day, width: 2)
            put("T")
            put(millis / 3_600_000, width: 2)
            put(":")
            put(millis / 60_000 % 60, width: 2)
            put(":")
            put(millis / 1_000 % 60, width: 2)
            put(".")
            put(millis % 1_000, width: 3)
            put("Z")
            return at
        }
    }

    private static func daysInMonth(_ month: Int, year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// The number of days since 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, "chrono-compatible date
    /// algorithms").
    private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
        let y = month <= 2 ? year - 1 : year
        let era = (y >= 0 ? y : y - 399) / 400
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    static func civil(daysSinceEpoch days: Int) -> (year: Int, month: Int, day: Int) {
        let z = days + 719_468
        let era = (z >= 0 ? z : z - 146_096) / 146_097
        let dayOfEra = z - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let mp = (5 * dayOfYear + 2) / 153
        let month = mp < 10 ? mp + 3 : mp - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * mp + 2) / 5 + 1)
    }
}

/// Reads fixed-width numbers from ASCII text.
private struct DigitReader {
    private var rest: Slice<UnsafeBufferPointer<UInt8>>

    init(_ text: UnsafeBufferPointer<UInt8>) {
        rest = text[...]
    }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func digits(_ count: Int) -> Int? {
        var value = 0
        for _ in 0..<count {
            guard let byte = rest.first, (48...57).contains(byte) else { return nil }
            value = value * 10 + Int(byte - 48)
            rest.removeFirst()
        }
        return value
    }

    /// Reads one or more digits after the decimal point, and returns them as microseconds.
    mutating func fraction() -> Int? {
        var value = 0
        var count = 0
        while let byte = rest.first, (48...57).contains(byte) {
            if count < 6 { value = value * 10 + Int(byte - 48) }
            count += 1
            rest.removeFirst()
        }
        guard count > 0 else { return nil }
        for _ in 0..<max(0, 6 - count) { value *= 10 }
        return value
    }

    mutating func skip(_ scalar: Unicode.Scalar, or other: Unicode.Scalar? = nil) -> Bool {
        guard let byte = rest.first else { return false }
        guard UInt32(byte) == scalar.value || UInt32(byte) == other?.value else { return false }
        rest.removeFirst()
        return true
    }
}

extension Duration {
    /// The duration in nanoseconds, which is the unit of swift-metrics' timers.
    public var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

extension JSONValue {
    /// The time in an RFC 3339 string; nil for other values.
    package var timestamp: Timestamp? { withString(Timestamp.init(rfc3339:)) ?? nil }
}
