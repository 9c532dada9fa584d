/// The `traceparent` of a request that a traced one caused (W3C Trace Context, version 00).
enum TraceParent {
    /// The same trace with a new parent id; a new trace, not sampled, when there is none to continue.
    static func continuing(_ traceparent: String?) -> String {
        guard let traceparent, let (trace, flags) = parts(of: traceparent) else {
            return "00-\(hex(.random(in: 1...UInt64.max)))\(hex(.random(in: 1...UInt64.max)))-\(newID())-00"
        }
        return "00-\(trace)-\(newID())-\(flags)"
    }

    /// Trace id and flags; nil for what is no header of version 00.
    private static func parts(of text: String) -> (trace: Substring, flags: Substring)? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [2, 32, 16, 2], parts[0] == "00", parts.allSatisfy(isHex),
            parts[1].contains(where: { $0 != "0" })
        else { return nil }
        return (parts[1], parts[3])
    }

    private static func isHex(_ text: Substring) -> Bool {
        text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    private static func newID() -> String { hex(.random(in: 1...UInt64.max)) }

    private static func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
