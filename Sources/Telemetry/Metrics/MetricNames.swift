/// The names that the exposition format allows, and the conversion of other names.
///
/// Libraries name their metrics with dots (`http.server.requests`), which version 0.0.4 of the format does not know. A
/// name is never a reason to fail: a process with a strange metric name is better than none.
enum MetricNames {
    /// A valid metric name that resembles `text`: every other character becomes `_`.
    ///
    /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
    static func metric(_ text: String) -> String {
        sanitized(text, colons: true)
    }

    /// The name under which a metric of this kind is exposed: counters end in `_total`.
    static func exposed(_ text: String, as kind: MetricKind) -> String {
        let name = metric(text)
        return kind == .counter && !name.hasSuffix("_total") ? name + "_total" : name
    }

    /// The name under which a timer is exposed: the base unit is its suffix.
    static func timer(_ text: String) -> String {
        let name = metric(text)
        return name.hasSuffix("_seconds") ? name : name + "_seconds"
    }

    /// A valid label name, `[a-zA-Z_][a-zA-Z0-9_]*`.
    ///
    /// It differs from Prometheus' reserved names: `le`, and those that begin with two underscores.
    static func label(_ text: String) -> String {
        let name = sanitized(text, colons: false)
        return name == "le" || name.hasPrefix("__") ? "exported_" + name : name
    }

    private static func sanitized(_ text: String, colons: Bool) -> String {
        if isClean(text, colons: colons) { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count + 1)
        for byte in text.utf8 {
            // A continuation byte belongs to a character that has its underscore already.
            if byte & 0xC0 == 0x80 { continue }
            if bytes.isEmpty, isDigit(byte) { bytes.append(UInt8(ascii: "_")) }
            bytes.append(isAllowed(byte, colons: colons) ? byte : UInt8(ascii: "_"))
        }
        return bytes.isEmpty ? "_" : String(decoding: bytes, as: UTF8.self)
    }

    private static func isClean(_ text: String, colons: Bool) -> Bool {
        guard let first = text.utf8.first, !isDigit(first) else { return false }
        return text.utf8.allSatisfy { isAllowed($0, colons: colons) }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    private static func isAllowed(_ byte: UInt8, colons: Bool) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: ":"): colons
        default: false
        }
    }
}
