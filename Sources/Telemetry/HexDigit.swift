/// Hexadecimal digits in lower case.
enum HexDigit {
    /// The digit of a value under 16.
    static func lowercase(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + (value - 10)
    }
}
