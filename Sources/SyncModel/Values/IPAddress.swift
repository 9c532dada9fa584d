/// An IP address, stored as its 4 or 16 bytes.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// Creates an address; nil if the number of bytes is neither 4 nor 16.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Reads an IPv4 address of four decimal numbers with dots, or an IPv6 address (RFC 4291, 2.2) without brackets and
    /// zone.
    public init?(_ text: String) {
        guard text.contains(":") else {
            guard let bytes = Self.v4(text[...]) else { return nil }
            self.bytes = bytes
            return
        }
        let halves = text.split(separator: "::", maxSplits: 2, omittingEmptySubsequences: false)
        guard halves.count <= 2, let head = Self.groups(halves[0]) else { return nil }
        guard halves.count == 2 else {
            guard head.count == 16 else { return nil }
            bytes = head
            return
        }
        guard let tail = Self.groups(halves[1]), head.count + tail.count <= 14 else { return nil }
        // an IPv4 address with dots is valid only at the end of an IPv6 address
        if halves[0].contains(".") { return nil }
        bytes = head + Array(repeating: 0, count: 16 - head.count - tail.count) + tail
    }

    /// The IPv4 address within an IPv4-mapped address (`::ffff:a.b.c.d`); otherwise the address itself.
    ///
    /// This address is the relevant one for checks, because a connection to an IPv4-mapped address leads to the IPv4
    /// address.
    public var unmapped: IPAddress {
        let prefix: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        guard bytes.count == 16, bytes.starts(with: prefix) else { return self }
        return IPAddress(bytes: Array(bytes.suffix(4))) ?? self
    }

    public var description: String {
        if bytes.count == 4 { return bytes.map(String.init).joined(separator: ".") }
        return stride(from: 0, to: 16, by: 2)
            .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }.joined(separator: ":")
    }

    private static func v4(_ text: Substring) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let bytes = parts.compactMap { part -> UInt8? in
            // leading zeros are not accepted, because some systems read such numbers as octal
            guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (48...57).contains($0) }),
                part == "0" || !part.hasPrefix("0")
            else { return nil }
            return UInt8(part)
        }
        return parts.count == 4 && bytes.count == 4 ? bytes : nil
    }

    /// The bytes of groups between colons. The last group may be an IPv4 address with dots.
    private static func groups(_ text: Substring) -> [UInt8]? {
        if text.isEmpty { return [] }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        var bytes: [UInt8] = []
        for (index, part) in parts.enumerated() {
            if index == parts.count - 1, part.contains(".") {
                guard let v4 = v4(part) else { return nil }
                bytes += v4
            } else {
                // the digits are checked because Swift's integer parser would accept a sign
                guard (1...4).contains(part.utf8.count), part.allSatisfy({ $0.isASCII && $0.isHexDigit }),
                    let group = UInt16(part, radix: 16)
                else { return nil }
                bytes += [UInt8(group >> 8), UInt8(group & 0xff)]
            }
        }
        return bytes.count <= 16 ? bytes : nil
    }
}

/// A block of addresses, such as `10.0.0.0/8`.
public struct IPNetwork: Sendable, Hashable {
    let base: [UInt8]
    let bits: Int

    /// Reads an address, optionally followed by the length of its prefix in bits.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])) else { return nil }
        var bits = address.bytes.count * 8
        if parts.count == 2 {
            guard !parts[1].isEmpty, parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let given = Int(parts[1]),
                given <= bits
            else { return nil }
            bits = given
        }
        base = address.bytes
        self.bits = bits
    }

    /// Reads blocks that are separated by spaces or commas; nil if a block is invalid.
    public static func list(_ text: String) -> [IPNetwork]? {
        let parts = text.replacing(",", with: " ").split(separator: " ")
        let networks = parts.compactMap { IPNetwork(String($0)) }
        return networks.count == parts.count ? networks : nil
    }

    public func contains(_ address: IPAddress) -> Bool {
        guard address.bytes.count == base.count else { return false }
        for index in 0..<((bits + 7) / 8) {
            let mask = UInt8(truncatingIfNeeded: 0xff << max(0, (index + 1) * 8 - bits))
            if (address.bytes[index] ^ base[index]) & mask != 0 { return false }
        }
        return true
    }
}
