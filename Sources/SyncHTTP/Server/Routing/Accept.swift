import HTTPTypes

/// Whether a caller takes JSON (RFC 9110, 12.5.1).
enum Accept {
    /// Whether the `Accept` fields allow `application/json`; the most specific range decides, and none allows anything.
    static func allowsJSON(_ headers: HTTPFields) -> Bool {
        guard let value = headers[.accept] else { return true }
        return allowsJSON(value)
    }

    static func allowsJSON(_ value: String) -> Bool {
        if value == "application/json" || value == "*/*" { return true }
        var best: (specificity: Int, allowed: Bool)?
        var isEmpty = true
        for range in value.utf8.split(separator: UInt8(ascii: ",")) {
            let parts = range.split(separator: UInt8(ascii: ";")).map { $0.trimmed.lowercased }
            guard let media = parts.first, !media.isEmpty else { continue }
            isEmpty = false
            guard let specificity = specificity(of: media) else { continue }
            if specificity > best?.specificity ?? 0 {
                best = (specificity, !parts.dropFirst().contains(where: isZeroQuality))
            }
        }
        return isEmpty || best?.allowed ?? false
    }

    private static func specificity(of range: String) -> Int? {
        switch range {
        case "application/json": 3
        case "application/*": 2
        case "*/*": 1
        default: nil
        }
    }

    /// `q=0`, `q=0.`, `q=0.000`
    private static func isZeroQuality(_ parameter: String) -> Bool {
        guard parameter.hasPrefix("q=0") else { return false }
        return parameter.utf8.dropFirst(3).allSatisfy { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "0") }
    }
}
