/// The part of `Cache-Control` (RFC 9111, 5.2) that limits the use of a key set.
enum CacheControl {
    /// Seconds; nil if the field does not specify them.
    ///
    /// A response that must not be stored is good for 0.
    static func maximumAge(_ text: String?) -> Int64? {
        guard let text else { return nil }
        var age: Int64?
        for directive in text.split(separator: ",") {
            let parts = directive.split(separator: "=", maxSplits: 1).map { part in
                [" ", "\t", "\""].reduce(String(part)) { $0.replacing($1, with: "") }.lowercased()
            }
            switch (parts.first, parts.count) {
            case ("no-store", _), ("no-cache", _): return 0
            case ("max-age", 2) where !parts[1].isEmpty && parts[1].utf8.allSatisfy { (48...57).contains($0) }:
                // a number that does not fit is long enough for any use
                age = min(age ?? .max, Int64(parts[1]) ?? .max)
            default: continue
            }
        }
        return age
    }
}
