import Glibc

/// A moment as log lines write it. Done by hand: a formatter object costs more than the rest of the line.
struct LogTime {
    /// Milliseconds since 1970, UTC.
    let milliseconds: Int64

    static func now() -> LogTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return LogTime(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// Appends `2026-11-20T07:00:00.000Z` (RFC 3339), for the years 0 to 9999.
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
    /// By eras of 400 years that begin on 1 March (so that leap days come last).
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
    /// Division that rounds towards minus infinity.
    ///
    /// So moments before 1970 fall on the right day.
    fileprivate func quotientAndRemainder(flooredBy divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
