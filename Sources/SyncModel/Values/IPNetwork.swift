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

    /// Blocks separated by spaces or commas; nil if one of them is invalid.
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
