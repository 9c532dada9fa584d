import Foundation
import Glibc

/// A proxy in front of the gateway that loses, cuts, duplicates and delays messages, depending on a seed.
final class FaultyProxy: @unchecked Sendable {
    enum Fault: CaseIterable {
        /// The request never arrives.
        case loseRequest
        /// The request takes effect, and the response is lost.
        case loseAnswer
        /// The response is cut in the middle.
        case cutAnswer
        /// The request arrives twice; the second response is returned.
        case double
        /// The request arrives later.
        case delay
        /// The request takes effect immediately, and the response arrives later.
        case delayAnswer
        /// The response is a page of a captive portal.
        case portal
        /// The response is a proxy's own rejection, which does not depend on the request.
        case forbidden
        case unavailable
    }

    let port: Int
    private var upstream: Int
    private let listener: Int32
    private let faults: [Fault]
    // guarded by the lock, because several threads serve requests
    private let lock = NSLock()
    private var generator: any RandomNumberGenerator
    private var rate: Double
    private var open = 0

    var url: URL { URL(string: "http://127.0.0.1:\(port)")! }

    /// - Parameters:
    ///   - faults: the possible faults.
    ///   - rate: the share of requests with a fault, from 0 to 1.
    init(
        to upstream: Int,
        faults: [Fault] = Fault.allCases,
        rate: Double,
        _ generator: any RandomNumberGenerator
    ) throws {
        self.upstream = upstream
        self.faults = faults
        self.rate = rate
        self.generator = generator
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = Self.address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw POSIXError(.EADDRINUSE) }
        port = Int(UInt16(bigEndian: address.sin_port))
        let thread = Thread { [self] in accept() }
        thread.start()
    }

    /// Whether a request is in progress.
    var isBusy: Bool { lock.withLock { open > 0 } }

    func set(rate: Double) { lock.withLock { self.rate = rate } }

    /// Sends all further requests to another server.
    func retarget(to upstream: Int) { lock.withLock { self.upstream = upstream } }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        address.sin_port = UInt16(port).bigEndian
        return address
    }

    private func accept() {
        while true {
            let client = Glibc.accept(listener, nil, nil)
            guard client >= 0 else { return }
            lock.withLock { open += 1 }
            Thread.detachNewThread { [self] in
                serve(client)
                close(client)
                lock.withLock { open -= 1 }
            }
        }
    }

    private func nextFault() -> Fault? {
        lock.withLock {
            guard Double.random(in: 0..<1, using: &generator) < rate else { return nil }
            return faults.randomElement(using: &generator)
        }
    }

    private func serve(_ client: Int32) {
        guard let request = Self.request(client) else { return }
        let fault = nextFault()
        switch fault {
        case .loseRequest: return
        case .portal:
            Self.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>",
                client
            )
        case .forbidden: Self.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", client)
        case .unavailable:
            Self.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", client)
        case .double:
            _ = exchange(request)
            Self.send(exchange(request), client)
        case .delay:
            usleep(20_000)
            Self.send(exchange(request), client)
        case .delayAnswer:
            let answer = exchange(request)
            usleep(UInt32(lock.withLock { Int.random(in: 1...60, using: &generator) }) * 1_000)
            Self.send(answer, client)
        case .loseAnswer: _ = exchange(request)
        case .cutAnswer:
            // the body is cut, because URLSession on Linux ends the process if a response head is cut
            let answer = exchange(request)
            let head = answer.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound ?? 0
            Self.send(Array(answer.prefix(head + (answer.count - head) / 2)), client)
        case nil: Self.send(exchange(request), client)
        }
    }

    /// Sends a request to the gateway and reads the complete response, after which the connection closes.
    private func exchange(_ request: [UInt8]) -> [UInt8] {
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(server) }
        var address = Self.address(lock.withLock { upstream })
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return [] }
        Self.send(request, server)
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(server, &buffer, buffer.count)
            if count <= 0 { return answer }
            answer += buffer[..<count]
        }
    }

    /// A complete request that asks to close its connection.
    private static func request(_ client: Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let end = Array("\r\n\r\n".utf8)
        while true {
            let count = read(client, &buffer, buffer.count)
            if count <= 0 { return nil }
            bytes += buffer[..<count]
            guard let head = bytes.firstRange(of: end) else { continue }
            let lines = String(decoding: bytes[..<head.lowerBound], as: UTF8.self).split(separator: "\r\n")
            let length =
                lines.first { $0.lowercased().hasPrefix("content-length:") }
                .flatMap { Int($0.split(separator: ":")[1].trimmingCharacters(in: .whitespaces)) } ?? 0
            if bytes.count < head.upperBound + length { continue }
            let kept = lines.filter { !$0.lowercased().hasPrefix("connection:") }
            return Array((kept.joined(separator: "\r\n") + "\r\nConnection: close\r\n\r\n").utf8)
                + bytes[head.upperBound..<head.upperBound + length]
        }
    }

    private static func send(_ text: String, _ socket: Int32) { send(Array(text.utf8), socket) }

    private static func send(_ bytes: [UInt8], _ socket: Int32) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count <= 0 { return }
            sent += count
        }
    }
}
