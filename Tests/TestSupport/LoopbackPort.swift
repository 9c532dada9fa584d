import Glibc
import Synchronization

/// Ports of 127.0.0.1 for servers that tests start, stop and start again.
package enum LoopbackPort {
    /// The descriptors of the reservations. They stay open, so no port is returned twice while this process runs.
    private static let reservations = Mutex<[Int32]>([])

    /// Reserves a port on which no process listens, until this process ends.
    ///
    /// The port is below the range from which Linux takes the ports of clients, so it stays free while its server is
    /// down. Several test processes run at the same time; the reservation is a socket with the port in its abstract
    /// name, which only one process can bind.
    package static func reserve() throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 12_000..<32_000)
            guard let reservation = reservation(of: port) else { continue }
            // closed after the attempt; a port that another program uses may be reserved again later
            guard let listener = listen(on: port) else {
                close(reservation)
                continue
            }
            close(listener)
            reservations.withLock { $0.append(reservation) }
            return port
        }
        throw TestCluster.Failure(description: "no free port")
    }

    /// Listens on a port; nil if another process does so. `SO_REUSEADDR` admits a port whose former server has ended,
    /// but whose connections the system remembers.
    package static func listen(on port: Int) -> Int32? {
        let descriptor = tcp()
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        if withAddress(port, { bind(descriptor, $0, $1) == 0 && Glibc.listen(descriptor, 16) == 0 }) {
            return descriptor
        }
        close(descriptor)
        return nil
    }

    /// Whether a new connection to the port is accepted.
    package static func accepts(_ port: Int) -> Bool {
        let descriptor = tcp()
        defer { close(descriptor) }
        return withAddress(port) { connect(descriptor, $0, $1) == 0 }
    }

    private static func tcp() -> Int32 {
        socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    private static func reservation(of port: Int) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = Array("\0sluice-test-port-\(port)".utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let isBound = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) == 0 }
        }
        if isBound { return descriptor }
        close(descriptor)
        return nil
    }

    private static func withAddress(_ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        address.sin_port = in_port_t(port).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
