/// The signed bytes: id, time and body, with dots between them.
struct SignedMessage {
    /// The id, the time, and the dots behind them.
    let head: [UInt8]
    let body: [UInt8]

    init(id: String, timestamp: Int64, body: [UInt8]) {
        head = Array("\(id).\(timestamp).".utf8)
        self.body = body
    }
}
