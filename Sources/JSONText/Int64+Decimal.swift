import CSimdJSON
public import FoundationEssentials
import Glibc

extension Int64 {
    /// Reads a whole JSON number that is written with a fraction or an exponent, such as `1.0` or `25e2`.
    ///
    /// JSON Schema treats such numbers as integers. Programs that have only floating-point numbers write integers in
    /// this way.
    ///
    /// The result is exact. Nil for other numbers, and for numbers beyond the range.
    init?(decimal text: some Collection<UInt8>) {
        var digits: [UInt8] = []
        var exponent = 0
        var isNegative = false
        var isFraction = false
        var rest = text[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "-"): isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                exponent += Self.exponent(rest)
                rest = rest[rest.endIndex...]
            default:
                if isFraction { exponent -= 1 }
                if !digits.isEmpty || byte != UInt8(ascii: "0") { digits.append(byte - UInt8(ascii: "0")) }
            }
        }
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        guard !digits.isEmpty else {
            self = 0
            return
        }
        // numbers in the range have at most 19 digits
        guard exponent >= 0, digits.count + exponent <= 19 else { return nil }
        digits += Array(repeating: 0, count: exponent)
        self.init(digits, isNegative: isNegative)
    }

    /// Reads `-?[0-9]+`; nil for a number beyond the range.
    init?(digits text: UnsafeBufferPointer<UInt8>) {
        let isNegative = text.first == UInt8(ascii: "-")
        self.init(text.dropFirst(isNegative ? 1 : 0).lazy.map { $0 &- UInt8(ascii: "0") }, isNegative: isNegative)
    }

    @inline(__always)
    private init?(_ digits: some Sequence<UInt8>, isNegative: Bool) {
        var value: Int64 = 0
        for digit in digits {
            let (shifted, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            // The sum is kept negative, because the lowest number has no positive counterpart.
            let (next, isTooLow) = shifted.subtractingReportingOverflow(Int64(digit))
            if isTooLarge || isTooLow { return nil }
            value = next
        }
        if !isNegative {
            guard value != .min else { return nil }
            value = -value
        }
        self = value
    }

    /// The exponent after the `e`. It is limited to a value that is larger than the length of any text.
    private static func exponent(_ text: some Collection<UInt8>) -> Int {
        var value = 0
        for byte in text where byte >= UInt8(ascii: "0") {
            value = Swift.min(value * 10 + Int(byte - UInt8(ascii: "0")), 1 << 40)
        }
        return text.first == UInt8(ascii: "-") ? -value : value
    }
}

/// Conversions that take about ten nanoseconds. Foundation's conversions take several hundred.
extension UUID {
    private static let textLength = 36

    /// Reads 36 ASCII bytes of the form 8-4-4-4-12 (RFC 9562, section 4), in upper or lower case; nil for any other
    /// bytes.
    public init?(text: UnsafeBufferPointer<UInt8>) {
        guard text.count == Self.textLength, let start = text.baseAddress else { return nil }
        var bytes: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        let isUUID = withUnsafeMutableBytes(of: &bytes) { bytes in
            csj_parse_uuid(start, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
        guard isUUID else { return nil }
        self.init(uuid: bytes)
    }

    /// Reads 36 ASCII bytes of the form 8-4-4-4-12 (RFC 9562, section 4), in upper or lower case; nil for any other
    /// bytes.
    public init?(text: some Collection<UInt8>) {
        let parsed = text.withContiguousStorageIfAvailable { UUID(text: $0) }
        guard let uuid = parsed ?? Array(text).withUnsafeBufferPointer({ UUID(text: $0) }) else { return nil }
        self = uuid
    }

    /// Reads 36 characters of the form 8-4-4-4-12 (RFC 9562, section 4), in upper or lower case; nil for any other
    /// text.
    public init?(parsing string: String) {
        self.init(text: string.utf8)
    }

    public var lowercased: String {
        String(unsafeUninitializedCapacity: Self.textLength) { buffer in
            format(into: buffer.baseAddress)
            return Self.textLength
        }
    }

    public func appendLowercased(to bytes: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.textLength) { buffer in
            format(into: buffer.baseAddress)
            bytes.append(contentsOf: UnsafeBufferPointer(buffer))
        }
    }

    private func format(into text: UnsafeMutablePointer<UInt8>?) {
        withUnsafeBytes(of: uuid) { bytes in
            csj_format_uuid(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), text)
        }
    }
}

extension [UInt8] {
    /// The JSON text without line ends.
    ///
    /// JSON has line ends only between tokens, because line ends in strings are escaped.
    public var inOneLine: [UInt8] {
        guard contains(where: { $0 == 0x0a || $0 == 0x0d }) else { return self }
        return map { $0 == 0x0a || $0 == 0x0d ? 0x20 : $0 }
    }
}

extension UnsafeBufferPointer<UInt8> {
    func isEqual(to other: UnsafeBufferPointer<UInt8>) -> Bool {
        guard count == other.count else { return false }
        guard let mine = baseAddress, let others = other.baseAddress else { return true }
        return memcmp(mine, others, count) == 0
    }

    /// Compares byte by byte, and orders a prefix before a longer text. Returns a negative number, 0, or a positive
    /// number.
    func order(against other: UnsafeBufferPointer<UInt8>) -> Int {
        if let mine = baseAddress, let others = other.baseAddress {
            let order = memcmp(mine, others, Swift.min(count, other.count))
            if order != 0 { return Int(order) }
        }
        return count - other.count
    }
}
