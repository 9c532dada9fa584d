/// PostgreSQL counts microseconds from 2000-01-01, Unix from 1970-01-01.
enum TimestampEpoch {
    private static let offset: Int64 = 946_684_800_000_000

    /// The wire value. `Int64.max` and `Int64.min` are `infinity` and `-infinity`. A time too early to express becomes
    /// one that the server refuses (22008) rather than a wrong one.
    static func wire(fromUnix microseconds: Int64) -> Int64 {
        if microseconds == .max || microseconds == .min { return microseconds }
        let (value, overflow) = microseconds.subtractingReportingOverflow(offset)
        return overflow ? .min + 1 : value
    }

    /// Microseconds since the Unix epoch.
    ///
    /// `infinity` and `-infinity` are `Int64.max` and `Int64.min`.
    static func unix(fromWire value: Int64) -> Int64 {
        let (microseconds, overflow) = value.addingReportingOverflow(offset)
        return value == .min || overflow ? value : microseconds
    }
}
