/// An IP address as its 4 or 16 bytes.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// - Returns: nil unless there are 4 or 16 bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Reads four decimal numbers with dots, or the text of an IPv6 address (RFC 4291, 2.2), without brackets and zone.
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
        // an address with dots stands at the end only
        if halves[0].contains(".") { return nil }
        bytes = head + Array(repeating: 0, count: 16 - head.count - tail.count) + tail
    }

    /// The IPv4 address within an IPv4-mapped one (`::ffff:a.b.c.d`), which the system connects to as such.
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
            // no leading zeros, which some read as octal
            guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (48...57).contains($0) }),
                part == "0" || part.first != "0"
            else { return nil }
            return UInt8(part)
        }
        return parts.count == 4 && bytes.count == 4 ? bytes : nil
    }

    /// The bytes of groups between colons; the last may be an address with dots.
    private static func groups(_ text: Substring) -> [UInt8]? {
        if text.isEmpty { return [] }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        var bytes: [UInt8] = []
        for (index, part) in parts.enumerated() {
            if index == parts.count - 1, part.contains(".") {
                guard let v4 = v4(part) else { return nil }
                bytes += v4
            } else {
                // a number of Swift's may have a sign
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

    /// Reads an address, and perhaps the number of its leading bits that count.
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

    /// Blocks with spaces or commas between; nil where one of them is none.
    public static func list(_ text: String) -> [IPNetwork]? {
        let parts = text.split { $0 == " " || $0 == "," }
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

/// Which addresses the gateway connects to where tenants say where: none through which they would reach what only the
/// gateway can (server-side request forgery), unless the operator allows it.
public struct AddressPolicy: Sendable, Hashable {
    /// What the operator allows beside public addresses.
    public let allowed: [IPNetwork]

    public init(allowed: [IPNetwork] = []) {
        self.allowed = allowed
    }

    /// Why nothing is sent to an address; nil where it may be.
    public func problem(_ address: IPAddress, isTLS: Bool) -> String? {
        let address = address.unmapped
        if allowed.contains(where: { $0.contains(address) }) { return nil }
        if let kind = Self.special.first(where: { $0.network.contains(address) })?.kind {
            return "its address \(address) is \(kind), which the operator has not allowed"
        }
        // of IPv6 only this is in use for the internet (RFC 4291, 2.4)
        if address.bytes.count == 16, address.bytes[0] & 0xe0 != 0x20 {
            return "its address \(address) is not public, and the operator has not allowed it"
        }
        return isTLS ? nil : "it is not https"
    }

    /// The registries of special-purpose addresses (RFC 6890 and its successors), and multicast.
    private static let special: [(network: IPNetwork, kind: String)] = [
        ("0.0.0.0/8", "of this network"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "a carrier's own"),
        ("127.0.0.0/8", "the gateway's own machine"), ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"), ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"), ("192.168.0.0/16", "private"), ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"), ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"), ("::1/128", "the gateway's own machine"), ("fe80::/10", "link-local"),
        ("fc00::/7", "private"), ("ff00::/8", "multicast"), ("64:ff9b::/96", "another address in disguise"),
        ("2001::/23", "reserved"), ("2001:db8::/32", "for documentation"),
        ("2002::/16", "another address in disguise"), ("3fff::/20", "for documentation"),
        // public by its number, but answered by the host of a virtual machine in Azure
        ("168.63.129.16/32", "a cloud's own"),
    ].compactMap { text, kind in IPNetwork(text).map { ($0, kind) } }
}
