import Glibc
import SyncHTTP

/// Checks whether an address is free, or has a listener.
enum PortProbe {
    enum Finding: Equatable {
        case free
        case taken
        /// The system's words.
        case unusable(String)
    }

    /// Whether a server could listen here; tries it for a moment.
    static func check(at address: ListenAddress) -> Finding {
        withSocket(address) { descriptor, target, length in
            var yes: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            if bind(descriptor, target, length) == 0, listen(descriptor, 1) == 0 { return .free }
            return errno == EADDRINUSE ? .taken : .unusable(String(cString: strerror(errno)))
        }
    }

    private static func withSocket(
        _ address: ListenAddress,
        _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Finding
    ) -> Finding {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, String(address.port), &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard code == 0, let first = list?.pointee, let target = first.ai_addr else {
            return .unusable(code == 0 ? "no such host" : String(cString: gai_strerror(code)))
        }
        let descriptor = socket(first.ai_family, first.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), first.ai_protocol)
        guard descriptor >= 0 else { return .unusable(String(cString: strerror(errno))) }
        defer { close(descriptor) }
        return body(descriptor, target, first.ai_addrlen)
    }
}
