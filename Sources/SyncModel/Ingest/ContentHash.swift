import Crypto
import FoundationEssentials
import JSONText

/// A hash that is equal for documents with the same content.
///
/// The hash is a SHA-256 of the document's canonical form. Therefore white space, escapes, the order of members and the
/// notation of numbers have no effect on the hash.
public struct ContentHash: Sendable, Hashable {
    public static let count = 32
    /// The hash of a deleted entity.
    public static let deletion = ContentHash(bytes: [UInt8](repeating: 0, count: count))

    public let bytes: [UInt8]

    /// Reads the stored form.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The hash of a document; nil if the document is not valid JSON.
    public init?(of document: [UInt8]) {
        guard let root = try? JSONTree(parsing: document, limits: .widest).root else { return nil }
        var canonical: [UInt8] = []
        var identifiers: [UUID] = []
        root.appendCanonical(to: &canonical, identifiers: &identifiers)
        var hash = SHA256()
        ContentNumbers.normalized(canonical).withUnsafeBytes { hash.update(bufferPointer: $0) }
        for id in identifiers { withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) } }
        bytes = Array(hash.finalize())
    }

    /// The hash of a stored entity; nil if the entity's document cannot be decrypted.
    public init?(of state: EntityState) {
        guard !state.isDeleted else {
            self = .deletion
            return
        }
        guard let document = state.document, let hash = ContentHash(of: document) else { return nil }
        self = hash
    }
}

/// Writes numbers in a common notation, in which equal values have equal text.
///
/// For example, `1.0`, `1` and `1e0` are equal values.
enum ContentNumbers {
    /// The maximum number of digits of a whole number that is written without an exponent.
    private static let plainDigits = 40

    /// The canonical form of a document, with its numbers in the common notation.
    ///
    /// Whole numbers without an exponent or a fraction are not changed.
    static func normalized(_ canonical: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(canonical.count)
        var index = 0
        while index < canonical.count {
            let byte = canonical[index]
            var end = index + 1
            switch byte {
            case UInt8(ascii: "\""):
                while end < canonical.count, canonical[end] != byte {
                    end += canonical[end] == UInt8(ascii: "\\") ? 2 : 1
                }
                end = min(end + 1, canonical.count)
                result += canonical[index..<end]
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                while end < canonical.count, isOfNumber(canonical[end]) { end += 1 }
                append(canonical[index..<end], to: &result)
            default: result.append(byte)
            }
            index = end
        }
        return result
    }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."),
            UInt8(ascii: "e"), UInt8(ascii: "E"):
            true
        default: false
        }
    }

    private static func append(_ text: ArraySlice<UInt8>, to result: inout [UInt8]) {
        let zero = UInt8(ascii: "0")
        let isNegative = text.first == UInt8(ascii: "-")
        let unsigned = isNegative ? text.dropFirst() : text
        let mantissa = unsigned.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        let power = unsigned.dropFirst(mantissa.count + 1)
        // a number with an exponent out of range is compared as it is written
        guard power.count <= 10, let exponent = power.isEmpty ? 0 : Int(String(decoding: power, as: UTF8.self)) else {
            result += text
            return
        }
        let whole = mantissa.prefix { $0 != UInt8(ascii: ".") }
        let fraction = mantissa.dropFirst(whole.count + 1)
        var digits = Array((whole + fraction).drop { $0 == zero })
        var scale = exponent - fraction.count
        while digits.last == zero {
            digits.removeLast()
            scale += 1
        }
        guard !digits.isEmpty else {
            result.append(zero)
            return
        }
        if isNegative { result.append(UInt8(ascii: "-")) }
        if scale >= 0, digits.count + scale <= plainDigits {
            result += digits + [UInt8](repeating: zero, count: scale)
        } else {
            result += digits
            result.append(UInt8(ascii: "e"))
            result += Array(String(scale).utf8)
        }
    }
}
