/// Which addresses the gateway connects to where tenants choose the address.
///
/// It rejects addresses that only the gateway can reach (server-side request forgery), unless the operator allows them.
public struct AddressPolicy: Sendable, Hashable {
    /// What the operator allows in addition to public addresses.
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

    /// The registries of special-purpose addresses, and multicast.
    ///
    /// RFC 6890 and its successors.
    private static let special: [(network: IPNetwork, kind: String)] = [
        ("0.0.0.0/8", "of this network"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "a carrier's own"),
        ("127.0.0.0/8", "the gateway's own machine"), ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"), ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"), ("192.168.0.0/16", "private"), ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"), ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"), ("::1/128", "the gateway's own machine"), ("fe80::/10", "link-local"),
        ("fc00::/7", "private"), ("ff00::/8", "multicast"), ("64:ff9b::/96", "an embedded address"),
        ("2001::/23", "reserved"), ("2001:db8::/32", "for documentation"),
        ("2002::/16", "an embedded address"), ("3fff::/20", "for documentation"),
        // public by its number, but answered by the host of a virtual machine in Azure
        ("168.63.129.16/32", "a cloud's own"),
    ].compactMap { text, kind in IPNetwork(text).map { ($0, kind) } }
}
