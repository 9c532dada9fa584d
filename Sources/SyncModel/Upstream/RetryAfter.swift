extension Timestamp {
    /// Reads the value of `Retry-After` (RFC 9110, 10.2.3).
    ///
    /// The value is a number of seconds from `now`, or a date in one of the three forms of RFC 9110, 5.6.7. Nil for any
    /// other text.
    ///
    /// The result is never before `now`, and never more than a day after it.
    public init?(retryAfter text: String, now: Timestamp) {
        let text = text.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let latest = now.adding(seconds: 86_400)
        if let first = text.first, (48...57).contains(first) {
            var reader = HTTPDateReader(text)
            guard let seconds = reader.number(upTo: 86_400), reader.isAtEnd else { return nil }
            self = now.adding(seconds: Double(seconds))
            return
        }
        var reader = HTTPDateReader(text)
        guard let date = reader.date(thisYear: Timestamp.civil(daysSinceEpoch: Int(now.seconds / 86_400)).year) else {
            return nil
        }
        self = min(max(date, now), latest)
    }
}

/// Reads the dates of RFC 9110, section 5.6.7.
///
/// The three forms are IMF-fixdate (`Sun, 06 Nov 1994 08:49:37 GMT`), RFC 850 (`Sunday, 06-Nov-94 08:49:37 GMT`) and
/// asctime (`Sun Nov 6 08:49:37 1994`). The name of the day is redundant, and only its form is checked.
private struct HTTPDateReader {
    private var rest: Substring.UTF8View

    init(_ text: Substring.UTF8View) {
        rest = text
    }

    /// Whether only white space remains to be read.
    var isAtEnd: Bool { rest.allSatisfy { $0 == 0x20 || $0 == 0x09 } }

    private static let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    private static let longDays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    mutating func date(thisYear: Int) -> Timestamp? {
        let name = word()
        let moment: Timestamp?
        if Self.days.contains(name) {
            moment = skip(", ") ? fixdate() : asctime()
        } else if Self.longDays.contains(name), skip(", ") {
            moment = rfc850(thisYear: thisYear)
        } else {
            return nil
        }
        return isAtEnd ? moment : nil
    }

    /// Reads the next digits as a number; nil if the next character is not a digit.
    ///
    /// A number above `limit` is read as `limit`.
    mutating func number(upTo limit: Int) -> Int? {
        guard let first = rest.first, (48...57).contains(first) else { return nil }
        var value = 0
        while let byte = rest.first, (48...57).contains(byte) {
            value = min(limit, value * 10 + Int(byte - 48))
            rest.removeFirst()
        }
        return value
    }

    private mutating func fixdate() -> Timestamp? {
        guard let day = digits(2), skip(" "), let month = month(), skip(" "), let year = digits(4), skip(" "),
            let time = time(), skip(" GMT")
        else { return nil }
        return moment(year, month, day, time)
    }

    private mutating func rfc850(thisYear: Int) -> Timestamp? {
        guard let day = digits(2), skip("-"), let month = month(), skip("-"), let short = digits(2), skip(" "),
            let time = time(), skip(" GMT")
        else { return nil }
        // a year that would be more than 50 years in the future means the latest past year with the same two digits
        let year = thisYear / 100 * 100 + short
        return moment(year > thisYear + 50 ? year - 100 : year, month, day, time)
    }

    private mutating func asctime() -> Timestamp? {
        guard skip(" "), let month = month(), skip(" "), let day = skip(" ") ? digits(1) : digits(2), skip(" "),
            let time = time(), skip(" "), let year = digits(4)
        else { return nil }
        return moment(year, month, day, time)
    }

    /// Reads a time in the form `HH:MM:SS`.
    private mutating func time() -> String? {
        guard let hour = digits(2), skip(":"), let minute = digits(2), skip(":"), let second = digits(2) else {
            return nil
        }
        return "\(Self.padded(hour)):\(Self.padded(minute)):\(Self.padded(second))"
    }

    /// Returns the point in time of a date. The RFC 3339 parser checks the day and the time of day.
    private func moment(_ year: Int, _ month: Int, _ day: Int, _ time: String) -> Timestamp? {
        guard (1_000...9_999).contains(year) else { return nil }
        return Timestamp(rfc3339: "\(year)-\(Self.padded(month))-\(Self.padded(day))T\(time)Z")
    }

    private static func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private mutating func month() -> Int? {
        Self.months.firstIndex(of: word()).map { $0 + 1 }
    }

    private mutating func word() -> String {
        let word = rest.prefix { (65...90).contains($0) || (97...122).contains($0) }
        rest = rest[word.endIndex...]
        return String(decoding: word, as: UTF8.self)
    }

    private mutating func digits(_ count: Int) -> Int? {
        var value = 0
        for _ in 0..<count {
            guard let byte = rest.first, (48...57).contains(byte) else { return nil }
            value = value * 10 + Int(byte - 48)
            rest.removeFirst()
        }
        return value
    }

    private mutating func skip(_ text: StaticString) -> Bool {
        text.withUTF8Buffer { bytes in
            guard rest.starts(with: bytes) else { return false }
            rest.removeFirst(bytes.count)
            return true
        }
    }
}
