import Foundation

/// Foundation's `UUID(uuidString:)` scans with `sscanf` on Linux, and its `UUID()` opens and closes `/dev/urandom`: each
/// takes as long as a statement of SQLite, and every row of a pull and every write needs some.
extension UUID {
    /// Reads 36 characters, in whichever case.
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

    /// As the gateway writes it, and the library's tables do: lower case (RFC 9562, 4).
    var wire: String { uuidString.lowercased() }

    init(wire text: String) throws {
        guard let uuid = UUID(text: text) else { throw SluiceError.invalid("'\(text)' is no UUID") }
        self = uuid
    }

    /// A random UUID (version 4).
    static func random() -> UUID {
        var generator = SystemRandomNumberGenerator()
        var bytes = (generator.next() as UInt64, generator.next() as UInt64)
        return withUnsafeMutableBytes(of: &bytes) { bytes in
            bytes[6] = bytes[6] & 0x0F | 0x40
            bytes[8] = bytes[8] & 0x3F | 0x80
            return UUID(uuid: bytes.loadUnaligned(as: uuid_t.self))
        }
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
