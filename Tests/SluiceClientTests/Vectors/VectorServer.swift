import Foundation
import Glibc

/// An HTTP server on 127.0.0.1 that follows a script, with one request per connection.
final class VectorServer: Sendable {
    struct Request: Sendable {
        let method: String
        let path: String
        let query: [String: String]
        /// The values of headers, by name in lower case.
        let headers: [String: String]
        let body: [UInt8]
    }

    enum Answer: Sendable {
        case whole(status: Int, headers: [String: String], body: [UInt8])
        /// The body is cut in the middle.
        case cut(status: Int, headers: [String: String], body: [UInt8])
        /// The connection closes without a response.
        case none
    }

    let port: Int
    private let listener: Int32
    private let answer: @Sendable (Request) -> Answer

    var url: URL { URL(string: "http://127.0.0.1:\(port)") ?? URL(filePath: "/") }

    init(_ answer: @escaping @Sendable (Request) -> Answer) throws {
        self.answer = answer
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 16) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw POSIXError(.EADDRINUSE) }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [answer] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                if let request = Self.request(client) { Self.send(Self.bytes(answer(request)), client) }
                close(client)
            }
            close(listener)
        }
    }

    func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

    private static func bytes(_ answer: Answer) -> [UInt8] {
        func head(_ status: Int, _ headers: [String: String], _ body: [UInt8]) -> [UInt8] {
            let lines =
                ["HTTP/1.1 \(status) Status", "Content-Length: \(body.count)", "Connection: close"]
                + headers.map { "\($0.key): \($0.value)" }
            return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        }
        switch answer {
        case .whole(let status, let headers, let body): return head(status, headers, body) + body
        case .cut(let status, let headers, let body): return head(status, headers, body) + body.prefix(body.count / 2)
        case .none: return []
        }
    }

    private static func request(_ client: Int32) -> Request? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(client, &buffer, buffer.count)
            if count <= 0 { return nil }
            bytes += buffer[..<count]
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
            let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
            let headers = lines.dropFirst().reduce(into: [String: String]()) { headers, line in
                let parts = line.split(separator: ":", maxSplits: 1)
                headers[parts[0].lowercased()] = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
            }
            let length = headers["content-length"].flatMap { Int($0) } ?? 0
            if bytes.count < end.upperBound + length { continue }
            let words = lines[0].split(separator: " ")
            guard words.count == 3, let target = URLComponents(string: String(words[1])) else { return nil }
            return Request(
                method: String(words[0]),
                path: target.path,
                query: (target.queryItems ?? []).reduce(into: [:]) { $0[$1.name] = $1.value ?? "" },
                headers: headers,
                body: Array(bytes[end.upperBound..<end.upperBound + length])
            )
        }
    }

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
