/// A time in microseconds since the Unix epoch, as a `timestamptz`.
///
/// PostgreSQL counts from 2000-01-01. `Int64.max` and `Int64.min` are `infinity` and `-infinity`.
public struct PostgresTimestamp: Hashable, Sendable {
    private static let offset: Int64 = 946_684_800_000_000

    public let microseconds: Int64

    public init(microseconds: Int64) { self.microseconds = microseconds }

    init(wire value: Int64) {
        let (microseconds, overflow) = value.addingReportingOverflow(Self.offset)
        self.microseconds = value == .min || overflow ? value : microseconds
    }

    /// The value in PostgreSQL's format. A time that is too early becomes a value that the server refuses (22008), so
    /// that no other time is stored in its place.
    var wire: Int64 {
        if microseconds == .max || microseconds == .min { return microseconds }
        let (value, overflow) = microseconds.subtractingReportingOverflow(Self.offset)
        return overflow ? .min + 1 : value
    }
}
