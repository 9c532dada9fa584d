package import Foundation
import GRDB

/// Times in the format of documents and of the library's tables: RFC 3339 (5.6), in UTC with milliseconds.
extension Date {
    /// The form `2026-01-15T12:30:00.000Z`. A time outside the range of this format is written as the nearest time in
    /// the range.
    package var rfc3339: String { text(between: "T", end: "Z") }

    /// The form `2026-01-15 12:30:00.000`, in which GRDB stores times.
    var sqlite: String { text(between: " ", end: "") }

    /// The text is computed by arithmetic (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"). Each write
    /// needs two such texts, and Foundation's formatters take longer than a statement of SQLite.
    private func text(between separator: String, end: String) -> String {
        let seconds = min(max(timeIntervalSince1970, Self.writable.lowerBound), Self.writable.upperBound - 0.001)
        // the days are counted from 1 March of the year 0, so that a leap day is the last day of its year
        let milliseconds = Int((seconds * 1_000).rounded()) + 719_468 * Self.day
        let (day, time) = milliseconds.quotientAndRemainder(dividingBy: Self.day)
        let (era, dayOfEra) = day.quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let year = era * 400 + yearOfEra + (month < 10 ? 0 : 1)
        let fields = [
            (year, 4, "-"), (month < 10 ? month + 3 : month - 9, 2, "-"),
            (dayOfYear - (153 * month + 2) / 5 + 1, 2, separator), (time / 3_600_000, 2, ":"),
            (time / 60_000 % 60, 2, ":"), (time / 1_000 % 60, 2, "."), (time % 1_000, 3, end),
        ]
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        for (number, digits, next) in fields {
            var power = [1, 10, 100, 1_000][digits - 1]
            while power > 0 {
                bytes.append(Self.zero + UInt8(number / power % 10))
                power /= 10
            }
            bytes += next.utf8
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let day = 86_400_000

    /// - Returns: nil for text that is not a time of RFC 3339 (5.6), such as `12:30`, `2026-01-15` or 30 February, and
    ///   for years in which calendars differ. In a fraction, digits after the third digit are ignored.
    init?(rfc3339 text: String) { self.init(Array(text.utf8), "dddd-dd-ddTdd:dd:dd") }

    /// Reads the form of ``sqlite``. GRDB's own parser uses a calendar, and takes as long as a statement of SQLite.
    ///
    /// The result is nil for other forms, even if GRDB accepts them.
    init?(sqlite text: String) {
        guard text.utf8.count == 23 else { return nil }
        self.init(Array(text.utf8) + [UInt8(ascii: "Z")], "dddd-dd-dd dd:dd:dd")
    }

    private init?(_ bytes: [UInt8], _ pattern: String) {
        guard bytes.count >= 20, zip(pattern.utf8, bytes).allSatisfy(Self.fits) else { return nil }
        func number(_ start: Int, _ count: Int = 2) -> Int {
            bytes[start..<start + count].reduce(0) { $0 * 10 + Int($1 - Self.zero) }
        }
        var rest = bytes[19...]
        var milliseconds = 0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { Self.fits(UInt8(ascii: "d"), $0) }
            guard !digits.isEmpty else { return nil }
            milliseconds = (Array(digits.prefix(3)) + [Self.zero, Self.zero]).prefix(3).reduce(0) {
                $0 * 10 + Int($1 - Self.zero)
            }
            rest = rest[digits.endIndex...]
        }
        let (year, month, day) = (number(0, 4), number(5), number(8))
        let (hour, minute, second) = (number(11), number(14), number(17))
        guard let offset = Self.offset(rest), (1...12).contains(month), hour < 24, minute < 60, second <= 60,
            (1...Self.days(of: month, in: year)).contains(day)
        else { return nil }
        let seconds = Self.daysSince1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset
        self.init(timeIntervalSince1970: Double(seconds * 1_000 + milliseconds) / 1_000)
        guard isWritable else { return nil }
    }

    /// Returns the seconds by which the zone `Z` or `+01:00` is ahead of UTC; nil for other text.
    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int? {
        func follows(_ pattern: String) -> Bool {
            pattern.utf8.count == bytes.count && zip(pattern.utf8, bytes).allSatisfy(fits)
        }
        if follows("Z") { return 0 }
        guard follows("+dd:dd") || follows("-dd:dd") else { return nil }
        let digits = bytes.filter { fits(UInt8(ascii: "d"), $0) }.map { Int($0 - zero) }
        let (hours, minutes) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3])
        guard hours < 24, minutes < 60 else { return nil }
        return (hours * 60 + minutes) * 60 * (bytes.first == UInt8(ascii: "-") ? -1 : 1)
    }

    private static func days(of month: Int, in year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let year = month > 2 ? year : year - 1
        let (era, yearOfEra) = year.quotientAndRemainder(dividingBy: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static let zero = UInt8(ascii: "0")

    /// Returns whether a byte matches a pattern: a digit for `d`; otherwise the same character, in upper or lower case.
    private static func fits(_ pattern: UInt8, _ byte: UInt8) -> Bool {
        pattern == UInt8(ascii: "d") ? byte >= zero && byte <= zero + 9 : byte == pattern || byte == pattern | 0x20
    }

    /// Whether RFC 3339 can represent the time, and all calendars represent the time in the same way.
    var isWritable: Bool { Self.writable.contains(timeIntervalSince1970) }

    /// The years 1583 to 9999.
    private static let writable = -12_212_553_600.0..<253_402_300_800.0
}
