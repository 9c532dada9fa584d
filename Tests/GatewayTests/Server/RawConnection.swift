import Foundation
import Glibc
import NIOHTTP1
import Synchronization

/// A TCP connection without built-in HTTP, for bytes that no HTTP client would send.
final class RawConnection: Sendable {
    private let descriptor: Int32
    /// Bytes after the last response.
    private let ahead = Mutex<[UInt8]>([])

    /// Connects to a port of this machine. Operations that exceed `timeout` fail.
    ///
    /// - Parameter receiveBuffer: the system's buffer for unread bytes; nil for its default.
    init(port: Int, timeout: Int = 290, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var limit = timeval(tv_sec: timeout, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        if var receiveBuffer {
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, size)
        }
        let isConnected = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { throw Broken() }
    }

    deinit {
        close(descriptor)
    }

    /// The connection ended before a complete response arrived.
    struct Broken: Error {}

    /// Sends as much as the other side accepts.
    func send(_ bytes: [UInt8]) async {
        await Self.blocking { [descriptor] in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                if count <= 0 { return }
                rest = rest.dropFirst(count)
            }
        }
    }

    func send(_ text: String) async {
        await send(Array(text.utf8))
    }

    /// Closes the sending side.
    func finishSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Resets the connection, as can happen when a phone loses its network.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        // closing would free the descriptor for others while this object still uses it
        let null = open("/dev/null", O_RDONLY)
        dup2(null, descriptor)
        close(null)
    }

    /// The next response.
    func reply() async throws -> Reply {
        var bytes = ahead.withLock { exchange(&$0, with: []) }
        while true {
            if let (reply, rest) = Self.parse(bytes) {
                ahead.withLock { $0 = rest }
                return reply
            }
            let more = await receive()
            guard !more.isEmpty else { throw Broken() }
            bytes += more
        }
    }

    /// Returns the next response to a HEAD, which has no body, regardless of its `Content-Length`.
    func head() async throws -> Reply {
        var bytes = ahead.withLock { exchange(&$0, with: []) }
        while true {
            if let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) {
                ahead.withLock { $0 = Array(bytes[end.upperBound...]) }
                return Self.head(bytes[..<end.lowerBound])
            }
            let more = await receive()
            guard !more.isEmpty else { throw Broken() }
            bytes += more
        }
    }

    /// The next response, with a longer time-out than the connection's own.
    func reply(within seconds: Int) async throws -> Reply {
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        return try await reply()
    }

    /// Whether the other side closes before the time-out, without sending any bytes.
    func ends() async -> Bool {
        guard ahead.withLock(\.isEmpty) else { return false }
        return await Self.blocking { [descriptor] in
            var byte: UInt8 = 0
            return recv(descriptor, &byte, 1, 0) == 0
        }
    }

    /// Whether the other side has reset the connection.
    var isBroken: Bool {
        var state = pollfd(fd: descriptor, events: 0, revents: 0)
        return poll(&state, 1, 0) > 0 && state.revents & Int16(POLLERR | POLLHUP) != 0
    }

    /// All bytes until the other side closes.
    func rest() async -> [UInt8] {
        var bytes = ahead.withLock { exchange(&$0, with: []) }
        while true {
            let more = await receive()
            if more.isEmpty { return bytes }
            bytes += more
        }
    }

    private func receive() async -> [UInt8] {
        await Self.blocking { [descriptor] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            return Array(buffer.prefix(max(0, count)))
        }
    }

    /// A complete response with a `Content-Length`, and the bytes after it.
    private static func parse(_ bytes: [UInt8]) -> (Reply, rest: [UInt8])? {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let head = head(bytes[..<end.lowerBound])
        let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
        let body = bytes[end.upperBound...]
        guard body.count >= length else { return nil }
        let reply = Reply(status: head.status, headers: head.headers, body: Array(body.prefix(length)))
        return (reply, Array(body.dropFirst(length)))
    }

    private static func head(_ bytes: ArraySlice<UInt8>) -> Reply {
        let lines = String(decoding: bytes, as: UTF8.self).components(separatedBy: "\r\n")
        let status = lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        var headers = HTTPHeaders()
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            headers.add(name: String(line[..<colon]), value: value)
        }
        return Reply(status: status, headers: headers, body: [])
    }

    /// Runs blocking work outside of the task pool's threads.
    private static func blocking<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: work()) }
        }
    }
}

extension SyncWorker {
    /// The head of a push for a raw connection.
    func pushHead(_ fields: String) -> String {
        "POST /v1/mutations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(token)\r\n"
            + "Content-Type: application/json\r\n\(fields)\r\n"
    }
}
