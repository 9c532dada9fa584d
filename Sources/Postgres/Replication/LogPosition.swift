/// A place in a server's write-ahead log (`pg_lsn`): bytes since its beginning.
public struct LogPosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// No position. In a request for a stream it means the position of the slot.
    public static let zero = LogPosition(0)

    public let bytes: UInt64

    public init(_ bytes: UInt64) { self.bytes = bytes }

    /// Reads PostgreSQL's text, two hexadecimal numbers of 32 bits: `16/B374D848`. Nil for any other text.
    public init?(_ text: String) {
        let halves = text.split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, halves.allSatisfy({ $0.utf8.allSatisfy(Self.isDigit) }),
            let high = UInt32(halves[0], radix: 16), let low = UInt32(halves[1], radix: 16)
        else { return nil }
        bytes = UInt64(high) << 32 | UInt64(low)
    }

    /// PostgreSQL's text.
    public var description: String {
        [bytes >> 32, bytes & 0xFFFF_FFFF].map { String($0, radix: 16, uppercase: true) }.joined(separator: "/")
    }

    public static func < (one: LogPosition, other: LogPosition) -> Bool { one.bytes < other.bytes }

    /// `UInt32(_:radix:)` takes a sign, too.
    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
