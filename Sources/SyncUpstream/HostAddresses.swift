import Foundation
import NIOCore
package import SyncModel

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Looks names of hosts up, as the system does.
package enum HostAddresses {
    /// The names of webhooks and databases; the callers bound how many of these an organization has.
    private static let names = HostNames(lifetime: .zero)

    /// Returns the addresses of a name, or the address in the text.
    ///
    /// Returns an empty array if there are no addresses, or if the system's resolver does not respond in time.
    package static func of(_ host: String) async -> [IPAddress] {
        // each name gets its own share, like an organization: one that takes long occupies one thread
        let holder = UUID()
        guard case .addresses(let found) = await names.addresses(of: host, for: holder) else { return [] }
        return found
    }

    /// Blocks its thread for as long as the system's resolver takes.
    package static func lookUp(_ host: String) -> [IPAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &first) == 0 else { return [] }
        defer { freeaddrinfo(first) }
        var found: [IPAddress] = []
        var next = first
        while let info = next?.pointee {
            if let address = address(info), !found.contains(address) { found.append(address) }
            next = info.ai_next
        }
        return found
    }

    private static func address(_ info: addrinfo) -> IPAddress? {
        guard let address = info.ai_addr else { return nil }
        switch info.ai_family {
        case AF_INET:
            return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                withUnsafeBytes(of: address.pointee.sin_addr) { IPAddress(bytes: Array($0)) }
            }
        case AF_INET6:
            return address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
                // an address that is good on one link only is no address of the internet
                withUnsafeBytes(of: address.pointee.sin6_addr) { IPAddress(bytes: Array($0)) }
            }
        default: return nil
        }
    }
}
