import Foundation
import GRDB

/// Moments as documents and the library's tables have them: RFC 3339 (5.6), written in UTC with milliseconds.
extension Date {
    /// `2026-01-15T12:30:00.000Z`. A moment that cannot be written so is written as the nearest that can.
    var rfc3339: String { text(between: "T", end: "Z") }

    /// `2026-01-15 12:30:00.000`, as GRDB stores it.
    var sqlite: String { text(between: " ", end: "") }

    /// By arithmetic (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"): Foundation's formatters take longer
    /// than a statement of SQLite, and each write needs two.
    private func text(between separator: String, end: String) -> String {
        let seconds = min(max(timeIntervalSince1970, Self.writable.lowerBound), Self.writable.upperBound - 0.001)
        // from the first of March of the year 0, so that leap days come last in a year
        let milliseconds = Int((seconds * 1_000).rounded()) + 719_468 * Self.day
        let (day, time) = milliseconds.quotientAndRemainder(dividingBy: Self.day)
        let (era, dayOfEra) = day.quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let year = era * 400 + yearOfEra + (month < 10 ? 0 : 1)
        return "\(Self.digits(year, 4))-\(Self.digits(month < 10 ? month + 3 : month - 9, 2))"
            + "-\(Self.digits(dayOfYear - (153 * month + 2) / 5 + 1, 2))"
            + "\(separator)\(Self.digits(time / 3_600_000, 2)):\(Self.digits(time / 60_000 % 60, 2))"
            + ":\(Self.digits(time / 1_000 % 60, 2)).\(Self.digits(time % 1_000, 3))\(end)"
    }

    private static let day = 86_400_000

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: count - text.utf8.count) + text
    }

    /// - Returns: nil for what is no moment of RFC 3339 (5.6), `12:30` and `2026-01-15` among it, of which GRDB would
    ///   make one, and for years in which calendars differ.
    init?(rfc3339 text: String) {
        guard Self.hasShape(text), let date = Date.fromDatabaseValue(text.uppercased().databaseValue), date.isWritable
        else { return nil }
        self = date
    }

    /// `2026-01-15T12:30:00`, a fraction or none, and `Z` or `+01:00`. By bytes: a regular expression takes longer than
    /// everything else that is done with a row.
    private static func hasShape(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, zip("dddd-dd-ddTdd:dd:dd".utf8, bytes).allSatisfy(fits) else { return false }
        func number(_ start: Int) -> UInt8 { (bytes[start] - zero) * 10 + (bytes[start + 1] - zero) }
        guard (1...12).contains(number(5)), (1...31).contains(number(8)), number(11) < 24, number(14) < 60,
            number(17) <= 60
        else { return false }
        var rest = bytes[19...]
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { fits(UInt8(ascii: "d"), $0) }
            guard !digits.isEmpty else { return false }
            rest = rest[digits.endIndex...]
        }
        return ["Z", "+dd:dd", "-dd:dd"].contains { pattern in
            pattern.utf8.count == rest.count && zip(pattern.utf8, rest).allSatisfy(fits)
        }
    }

    private static let zero = UInt8(ascii: "0")

    /// Whether a byte is what a pattern asks for: a digit where that has a `d`, else itself, in whichever case.
    private static func fits(_ pattern: UInt8, _ byte: UInt8) -> Bool {
        pattern == UInt8(ascii: "d") ? byte >= zero && byte <= zero + 9 : byte == pattern || byte == pattern | 0x20
    }

    /// Whether RFC 3339 can write it, and every calendar writes it alike.
    var isWritable: Bool { Self.writable.contains(timeIntervalSince1970) }

    /// The years 1583 to 9999.
    private static let writable = -12_212_553_600.0..<253_402_300_800.0
}
