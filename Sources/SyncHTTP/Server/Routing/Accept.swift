package import HTTPTypes

/// Whether a client accepts a media type (RFC 9110, 12.5.1).
package enum Accept {
    /// Whether the `Accept` fields allow a media type; the most specific range decides, and an absent field allows
    /// all.
    package static func allows(_ mediaType: String, _ headers: HTTPFields) -> Bool {
        guard let value = headers[.accept] else { return true }
        return allows(mediaType, value)
    }

    package static func allows(_ mediaType: String, _ value: String) -> Bool {
        if value == mediaType || value == "*/*" { return true }
        var best: (specificity: Int, allowed: Bool)?
        var isEmpty = true
        for range in value.utf8.split(separator: UInt8(ascii: ",")) {
            let parts = range.split(separator: UInt8(ascii: ";")).map { $0.trimmed.lowercased }
            guard let media = parts.first, !media.isEmpty else { continue }
            isEmpty = false
            guard let specificity = specificity(of: media, for: mediaType) else { continue }
            if specificity > best?.specificity ?? 0 {
                best = (specificity, !parts.dropFirst().contains(where: isZeroQuality))
            }
        }
        return isEmpty || best?.allowed ?? false
    }

    private static func specificity(of range: String, for mediaType: String) -> Int? {
        if range == mediaType { return 3 }
        if range == "*/*" { return 1 }
        return range.hasSuffix("/*") && mediaType.hasPrefix(range.dropLast()) ? 2 : nil
    }

    /// `q=0`, `q=0.`, `q=0.000`
    private static func isZeroQuality(_ parameter: String) -> Bool {
        guard parameter.hasPrefix("q=0") else { return false }
        return parameter.utf8.dropFirst(3).allSatisfy { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "0") }
    }
}
