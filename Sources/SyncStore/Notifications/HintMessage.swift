/// The messages between replicas by NOTIFY: names of what was changed, never data.
enum HintMessage: Sendable, Equatable {
    /// The sender is running.
    case presence
    /// More lanes are due than the sender can run.
    case due
    /// Lanes and feeds were changed.
    case changed([WakeName])
    /// Too much was changed to name it.
    case everything

    /// PostgreSQL takes payloads of less than 8,000 bytes.
    static let maximumNames = 900

    /// The payload: the sender, a letter, and names.
    func text(from sender: WakeName) -> String {
        var text: [UInt8] = []
        sender.append(to: &text)
        switch self {
        case .presence: text.append(UInt8(ascii: "p"))
        case .due: text.append(UInt8(ascii: "d"))
        case .everything: text.append(UInt8(ascii: "e"))
        case .changed(let names):
            text.append(UInt8(ascii: "c"))
            for name in names { name.append(to: &text) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads a payload; nil for one that no replica sends.
    static func read(_ text: String) -> (sender: WakeName, message: HintMessage)? {
        let bytes = Array(text.utf8)
        guard bytes.count > WakeName.length, let sender = WakeName(bytes[..<WakeName.length]) else { return nil }
        let rest = bytes[(WakeName.length + 1)...]
        switch bytes[WakeName.length] {
        case UInt8(ascii: "p"): return (sender, .presence)
        case UInt8(ascii: "d"): return (sender, .due)
        case UInt8(ascii: "e"): return (sender, .everything)
        case UInt8(ascii: "c"):
            let names = stride(from: rest.startIndex, to: rest.endIndex, by: WakeName.length).map {
                WakeName(rest[$0..<min($0 + WakeName.length, rest.endIndex)])
            }
            let known = names.compactMap { $0 }
            return known.count == names.count ? (sender, .changed(known)) : nil
        default: return nil
        }
    }
}
