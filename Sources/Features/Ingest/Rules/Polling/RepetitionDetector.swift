import Crypto
import JSONText
import SyncModel

/// Detects a cycle in a sequence, with one stored value (R. Brent, "An improved Monte Carlo factorization algorithm").
/// It needs at most three times the length of the part before the cycle and of the cycle.
struct RepetitionDetector: Sendable, Hashable {
    @Exact private var mark: String
    /// Values until another is remembered.
    private var left = 1
    private var power = 1

    /// - Parameter first: digest of the sequence's first value.
    init(_ first: String) {
        mark = first
    }

    /// Adds the digest of the next value; returns whether that occurred before.
    mutating func repeats(_ digest: String) -> Bool {
        if digest == mark { return true }
        left -= 1
        if left <= 0 {
            mark = digest
            power = min(power * 2, 1 << 30)
            left = power
        }
        return false
    }

    static func digest(_ value: some Sequence<UInt8>) -> String {
        var text = ""
        for byte in SHA256.hash(data: Array(value)).prefix(12) {
            if byte < 16 { text += "0" }
            text += String(byte, radix: 16)
        }
        return text
    }

    init?(stored value: JSONValue?) {
        guard let mark = value?["mark"]?.string, let left = value?["left"]?.int64, let power = value?["power"]?.int64,
            (1...1 << 30).contains(left), (1...1 << 30).contains(power)
        else { return nil }
        self.mark = mark
        self.left = Int(left)
        self.power = Int(power)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("mark", mark)
        writer.member("left", left)
        writer.member("power", power)
        writer.endObject()
    }
}
