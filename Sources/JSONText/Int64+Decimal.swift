extension Int64 {
    /// Reads a whole JSON number that is written with a fraction or an exponent.
    ///
    /// For example `1.0` or `25e2`: to JSON Schema that is an integer, and writers that have only floating-point
    /// numbers produce it.
    ///
    /// Exact: no digit is rounded. Nil for other numbers, and beyond the range.
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
        // the range has 19 digits
        guard exponent >= 0, digits.count + exponent <= 19 else { return nil }
        digits += Array(repeating: 0, count: exponent)
        self.init(digits, isNegative: isNegative)
    }

    /// Reads `-?[0-9]+`; nil beyond the range.
    init?(digits text: UnsafeBufferPointer<UInt8>) {
        let isNegative = text.first == UInt8(ascii: "-")
        self.init(text.dropFirst(isNegative ? 1 : 0).lazy.map { $0 &- UInt8(ascii: "0") }, isNegative: isNegative)
    }

    @inline(__always)
    private init?(_ digits: some Sequence<UInt8>, isNegative: Bool) {
        var value: Int64 = 0
        for digit in digits {
            let (shifted, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            // Counted downwards: the lowest number has no positive counterpart.
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

    /// The number behind the `e`, clamped far beyond the digits of every number.
    private static func exponent(_ text: some Collection<UInt8>) -> Int {
        var value = 0
        for byte in text where byte >= UInt8(ascii: "0") {
            value = Swift.min(value * 10 + Int(byte - UInt8(ascii: "0")), 1 << 40)
        }
        return text.first == UInt8(ascii: "-") ? -value : value
    }
}
