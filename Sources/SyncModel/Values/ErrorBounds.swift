/// Bounds on the errors that a problem lists, and on the names that they quote.
///
/// The errors of a request quote its members, so without a bound an answer is many times as large as its request.
public enum ErrorBounds {
    /// Errors that a problem about one entry lists.
    public static let perEntry = 20
    /// Errors that a problem about a body of settings lists.
    public static let perBody = 100
    /// Errors that one request lists in total.
    ///
    /// A refused entry beyond this lists its first error alone.
    public static let perRequest = 500
    /// Errors that any problem lists.
    public static let perProblem = 1_000
    /// Bytes of a pointer, of a rule and of a problem's description.
    public static let pointer = 512
    public static let detail = 1_024
    public static let problemDetail = 4_096

    /// Ends a text that was cut.
    static let mark = "…"

    /// The beginning of a text that is longer than `limit` bytes, followed by a mark.
    public static func cut(_ text: String, to limit: Int) -> String {
        guard text.utf8.count > limit else { return text }
        var bytes = Array(text.utf8.prefix(limit - mark.utf8.count))
        // not within a character's bytes
        while let last = bytes.last, last & 0xC0 == 0x80 { bytes.removeLast() }
        if let last = bytes.last, last >= 0xC0 { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self) + mark
    }
}
