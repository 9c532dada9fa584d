/// A UUID as two numbers.
struct UUIDBits {
    var high: UInt64
    var low: UInt64

    /// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    init?(_ text: some StringProtocol) {
        let digits = String(text.filter { $0 != "-" })
        guard digits.count == 32, text.count == 36 else { return nil }
        guard let high = UInt64(digits.prefix(16), radix: 16), let low = UInt64(digits.suffix(16), radix: 16) else {
            return nil
        }
        self.high = high
        self.low = low
    }
}

/// An installation of a user, with the head of its pushes. At most one of its pushes is in flight at any time.
struct Device {
    let id: UUIDBits
    /// The head of the device's requests, up to and including the empty line.
    let head: UnsafeBufferPointer<UInt8>
    /// The sequence number of the next mutation.
    var nextNumber: UInt64
    /// The push that created the device's contacts; nil before that.
    var contacts: Push?

    /// - Parameter firstNumber: above every number of an earlier run, so that a device can continue.
    init(_ user: User, copy: Int, request: RequestHead, firstNumber: UInt64) {
        var id = user.id
        // if a user has several devices, the ids of the later ones differ in the digits left of the user's number
        id.low ^= UInt64(copy) << 40
        self.id = id
        nextNumber = firstNumber
        // Lives as long as the process does.
        let text = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: request.text(token: user.token).utf8.count)
        _ = text.update(fromContentsOf: request.text(token: user.token).utf8)
        head = UnsafeBufferPointer(text)
    }
}

/// The common part of the head of every push.
struct RequestHead {
    let host: String
    let path: String
    let scheme: String
    let contentLength: Int

    func text(token: String) -> String {
        """
        POST \(path) HTTP/1.1\r
        Host: \(host)\r
        Authorization: \(scheme) \(token)\r
        Content-Type: application/json\r
        Content-Length: \(contentLength)\r
        \r\n
        """
    }
}
