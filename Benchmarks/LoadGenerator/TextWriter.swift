/// Overwrites existing text in a buffer, digit by digit.
struct TextWriter {
    /// The two hexadecimal digits of each byte, in memory order.
    private let hexadecimal: UnsafePointer<UInt16>

    /// Lives as long as the process does.
    init() {
        let digits = Array("0123456789abcdef".utf8).map(UInt16.init)
        let table = UnsafeMutablePointer<UInt16>.allocate(capacity: 256)
        for byte in 0..<256 {
            table[byte] = UInt16(littleEndian: digits[byte >> 4] | digits[byte & 15] << 8)
        }
        hexadecimal = UnsafePointer(table)
    }

    /// Writes the 32 digits of a random UUID (version 4) around the existing dashes.
    func writeUUID(_ high: UInt64, _ low: UInt64, at target: UnsafeMutablePointer<UInt8>) {
        let high = high & 0xFFFF_FFFF_FFFF_0FFF | 0x4000
        let low = low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        let bytes = UnsafeMutableRawPointer(target)
        write(high, from: 56, count: 4, at: bytes)
        write(high, from: 24, count: 2, at: bytes + 9)
        write(high, from: 8, count: 2, at: bytes + 14)
        write(low, from: 56, count: 2, at: bytes + 19)
        write(low, from: 40, count: 6, at: bytes + 24)
    }

    /// Writes `count` bytes of a number. The first byte is the one that is `shift` bits from the right.
    @inline(__always)
    private func write(_ number: UInt64, from shift: UInt64, count: Int, at target: UnsafeMutableRawPointer) {
        for index in 0..<count {
            let byte = Int(truncatingIfNeeded: number &>> (shift &- UInt64(index) &* 8) & 0xFF)
            target.storeBytes(of: hexadecimal[byte], toByteOffset: index &* 2, as: UInt16.self)
        }
    }

    /// Writes a number right-aligned into `width` digits.
    func writeNumber(_ number: UInt64, width: Int, at target: UnsafeMutablePointer<UInt8>) {
        var rest = number
        var index = width
        while index > 0 {
            index &-= 1
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            target[index] = 48 &+ UInt8(truncatingIfNeeded: digit)
            rest = quotient
        }
    }
}
