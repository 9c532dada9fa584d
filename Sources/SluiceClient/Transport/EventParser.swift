/// Reads server-sent events (WHATWG HTML, 9.2) from the bytes of a stream as they arrive.
struct EventParser {
    struct Event: Sendable, Hashable {
        var name = "message"
        var data = ""
    }

    /// The maximum length of a line. No event of the gateway is so long. A longer line is cut, so its data are not
    /// valid JSON.
    static let lineLimit = 8 << 20

    private var line: [UInt8] = []
    private var event = Event()
    private var hasData = false

    /// - Returns: the events that are now complete.
    mutating func take(_ bytes: some Sequence<UInt8>) -> [Event] {
        var events: [Event] = []
        for byte in bytes {
            if byte != UInt8(ascii: "\n") {
                if line.count < Self.lineLimit { line.append(byte) }
                continue
            }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if let event = end(String(decoding: line, as: UTF8.self)) { events.append(event) }
            line.removeAll(keepingCapacity: true)
        }
        return events
    }

    /// Processes the end of a line. An empty line ends an event, which is then returned.
    private mutating func end(_ line: String) -> Event? {
        if line.isEmpty {
            defer { (event, hasData) = (Event(), false) }
            return hasData ? event : nil
        }
        let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let value = parts.count > 1 ? Substring(parts[1].utf8.drop { $0 == UInt8(ascii: " ") }) : ""
        switch parts[0] {
        case "event": event.name = String(value)
        case "data":
            if event.data.utf8.count < Self.lineLimit { event.data += (hasData ? "\n" : "") + value }
            hasData = true
        default: break
        }
        return nil
    }
}
