import Glibc

/// The received part of an answer. The memory is reused for the next answer.
struct AnswerBuffer {
    private struct Head {
        var status: Int
        /// The size of head and body.
        var total: Int
        var body: Int
    }

    private var bytes: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private var count = 0
    private var head: Head?

    init(capacity: Int = 16_384) {
        self.capacity = capacity
        bytes = .allocate(capacity: capacity)
    }

    /// The status, valid once ``receive(from:)`` has returned `complete`.
    var status: Int { head?.status ?? 0 }
    /// The body, valid until the buffer is cleared.
    var body: UnsafeBufferPointer<UInt8> {
        guard let head else { return UnsafeBufferPointer(start: nil, count: 0) }
        return UnsafeBufferPointer(start: bytes + head.body, count: head.total - head.body)
    }

    enum Progress {
        case incomplete, complete
        /// The connection has ended, or the answer is unreadable.
        case broken
    }

    mutating func clear() {
        count = 0
        head = nil
    }

    /// Reads the available bytes of the socket.
    mutating func receive(from socket: Int32) -> Progress {
        while true {
            if count == capacity { grow(to: capacity * 2) }
            let received = recv(socket, bytes + count, capacity - count, Int32(MSG_DONTWAIT))
            if received < 0 {
                if errno == EINTR { continue }
                return errno == EAGAIN ? .incomplete : .broken
            }
            if received == 0 { return .broken }
            count += received
            if head == nil, !readHead() { return .broken }
            guard let head else { continue }
            if count >= head.total { return count == head.total ? .complete : .broken }
            if head.total > capacity { grow(to: head.total) }
        }
    }

    private mutating func grow(to size: Int) {
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: size)
        larger.update(from: bytes, count: count)
        bytes.deallocate()
        bytes = larger
        capacity = size
    }

    /// Parses the head once it is complete; false if it is invalid.
    private mutating func readHead() -> Bool {
        let text = UnsafeBufferPointer(start: bytes, count: count)
        guard let end = text.endOfHead() else { return true }
        // HTTP/1.1 200
        guard end > 12, let status = text.number(from: 9), let length = text.contentLength(before: end) else {
            return false
        }
        head = Head(status: status, total: end + 4 + length, body: end + 4)
        return true
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The end of the head's last line: the offset of its carriage return.
    fileprivate func endOfHead() -> Int? {
        var index = 3
        while index < count {
            if self[index] == 10, self[index - 1] == 13, self[index - 2] == 10, self[index - 3] == 13 {
                return index - 3
            }
            index += 1
        }
        return nil
    }

    fileprivate func number(from start: Int) -> Int? {
        var index = start
        var number = 0
        while index < count, case let digit = Int(self[index]) - 48, (0...9).contains(digit) {
            number = number * 10 + digit
            index += 1
        }
        return index > start ? number : nil
    }

    private func isContentLength(at line: Int) -> Bool {
        guard let start = baseAddress else { return false }
        return UnsafeRawPointer(start + line).withMemoryRebound(to: CChar.self, capacity: 15) {
            strncasecmp($0, "content-length:", 15) == 0
        }
    }

    /// The value of the field `Content-Length`.
    fileprivate func contentLength(before end: Int) -> Int? {
        var line = 0
        while line < end {
            if line + 16 < end, self[line] | 32 == UInt8(ascii: "c"), isContentLength(at: line) {
                var value = line + 15
                while value < end, self[value] == UInt8(ascii: " ") { value += 1 }
                return number(from: value)
            }
            guard let next = self[line..<end].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            line = next + 1
        }
        return nil
    }
}
