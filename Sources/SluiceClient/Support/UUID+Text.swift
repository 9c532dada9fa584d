public import Foundation

/// Fast replacements for Foundation's functions. On Linux, `UUID(uuidString:)` scans with `sscanf`, and `UUID()` opens
/// and closes `/dev/urandom`. Each of these calls takes as long as a statement of SQLite, and every pulled row and
/// every write needs several calls.
extension UUID {
    /// Reads a text of 36 characters, in upper or lower case; nil for any other text.
    init?(text: String) {
        var text = text
        let uuid = text.withUTF8 { bytes -> UUID? in
            guard bytes.count == 36 else { return nil }
            var value: (UInt64, UInt64) = (0, 0)
            return withUnsafeMutableBytes(of: &value) { result in
                var (next, digits) = (0, 0)
                for (place, byte) in bytes.enumerated() {
                    if [8, 13, 18, 23].contains(place) {
                        guard byte == UInt8(ascii: "-") else { return nil }
                        continue
                    }
                    guard let digit = Self.digit(byte) else { return nil }
                    digits += 1
                    result[next] = digits % 2 == 1 ? digit << 4 : result[next] | digit
                    if digits % 2 == 0 { next += 1 }
                }
                return UUID(uuid: result.loadUnaligned(as: uuid_t.self))
            }
        }
        guard let uuid else { return nil }
        self = uuid
    }

    /// The text in lower case (RFC 9562, 4), as at the gateway and in the library's tables.
    package var wire: String {
        String(unsafeUninitializedCapacity: 36) { text in
            var place = 0
            withUnsafeBytes(of: uuid) { bytes in
                for byte in bytes {
                    if [8, 13, 18, 23].contains(place) {
                        text[place] = UInt8(ascii: "-")
                        place += 1
                    }
                    text[place] = Self.hexadecimal(byte >> 4)
                    text[place + 1] = Self.hexadecimal(byte & 15)
                    place += 2
                }
            }
            return place
        }
    }

    init(wire text: String) throws {
        guard let uuid = UUID(text: text) else { throw SluiceError.invalid("'\(text)' is not a UUID") }
        self = uuid
    }

    /// Returns a random UUID (version 4).
    package static func random() -> UUID {
        var bytes = randomBits()
        return withUnsafeMutableBytes(of: &bytes) { bytes in
            bytes[6] = bytes[6] & 0x0F | 0x40
            bytes[8] = bytes[8] & 0x3F | 0x80
            return UUID(uuid: bytes.loadUnaligned(as: uuid_t.self))
        }
    }

    /// Returns a UUID that begins with the time (version 7, RFC 9562, 5.7), which is a good key for a new row.
    ///
    /// Keys that are made in sequence are adjacent in each index, on the phone and at the server. Successive writes
    /// therefore often change the same pages. Random keys (`UUID()`) are equally correct, but cost more.
    ///
    /// - Parameter now: the time in the UUID, with a precision of a millisecond. For a time before 1970, 1970 is used.
    public static func timeOrdered(_ now: Date = Date()) -> UUID {
        let milliseconds = UInt64(max(0, min(now.timeIntervalSince1970 * 1_000, 0xFFFF_FFFF_FFFF)))
        var uuid = random().uuid
        withUnsafeMutableBytes(of: &uuid) { bytes in
            for place in 0..<6 { bytes[place] = UInt8(truncatingIfNeeded: milliseconds >> (40 - 8 * place)) }
            bytes[6] = bytes[6] & 0x0F | 0x70
        }
        return UUID(uuid: uuid)
    }

    private static func randomBits() -> (UInt64, UInt64) {
        #if canImport(Glibc)
            // one call for two numbers, because on Linux the generator makes a system call for each number
            var bits: (UInt64, UInt64) = (0, 0)
            if getentropy(&bits, MemoryLayout<uuid_t>.size) == 0 { return bits }
        #endif
        var generator = SystemRandomNumberGenerator()
        return (generator.next(), generator.next())
    }

    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
