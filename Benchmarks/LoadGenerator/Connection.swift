import Glibc

/// A connection to the gateway, with at most one push in flight.
final class Connection {
    /// The devices for which only this connection pushes.
    let devices: [Int]
    /// Pushes that can be sent again.
    var pushed: [Push] = []

    private(set) var socket: Int32 = -1
    private(set) var current: Push?
    private(set) var isReplay = false
    private(set) var startedAt: UInt64 = 0
    var answer = AnswerBuffer()

    private let body: UnsafeMutablePointer<UInt8>
    private let bodyCount: Int
    private var head = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    private var written = 0

    init(devices: [Int], template: PushTemplate) {
        self.devices = devices
        bodyCount = template.bytes.count
        body = .allocate(capacity: bodyCount)
        template.bytes.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return }
            body.initialize(from: start, count: bodyCount)
        }
    }

    func open(_ address: Address) throws(Failure) {
        if socket >= 0 { close(socket) }
        socket = try address.connect()
        answer.clear()
    }

    /// Prepares the next request; ``write()`` sends it.
    func begin(_ push: Push, replay: Bool, device: Device, template: PushTemplate, now: UInt64) {
        template.fill(body, with: push, of: device)
        current = push
        isReplay = replay
        head = device.head
        written = 0
        startedAt = now
        answer.clear()
    }

    func end() { current = nil }

    enum WriteProgress {
        case done, blocked, broken
    }

    /// Sends the remaining part of the request, as far as the socket accepts it.
    func write() -> WriteProgress {
        let total = head.count + bodyCount
        while written < total {
            let sent = writeOnce()
            if sent < 0 {
                if errno == EINTR { continue }
                return errno == EAGAIN ? .blocked : .broken
            }
            written += sent
        }
        return .done
    }

    private func writeOnce() -> Int {
        let start = written - head.count
        if start >= 0 { return Glibc.write(socket, body + start, bodyCount - start) }
        let headStart = UnsafeMutableRawPointer(mutating: head.baseAddress.map { $0 + written })
        let first = iovec(iov_base: headStart, iov_len: head.count - written)
        let second = iovec(iov_base: body, iov_len: bodyCount)
        return withUnsafePointer(to: (first, second)) { pair in
            pair.withMemoryRebound(to: iovec.self, capacity: 2) { writev(socket, $0, 2) }
        }
    }
}
