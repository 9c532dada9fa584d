/// Formats the terminal's line about a request to the demo's REST API.
enum DemoLine {
    /// The maximum number of shown characters of a target and of a body.
    private static let limit = 120

    static func text(_ request: DemoRequest, _ answer: DemoAnswer) -> String {
        var line = "upstream: \(request.method) \(cut(request.target)) → \(answer.status)"
        if !answer.remark.isEmpty { line += " (\(cut(answer.remark)))" }
        if !request.body.isEmpty { line += "  \(cut(String(decoding: request.body, as: UTF8.self)))" }
        return line
    }

    /// Returns a text without control characters, which a terminal would interpret.
    private static func cut(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(limit).filter { $0.properties.generalCategory != .control }
        return String(String.UnicodeScalarView(shown)) + (text.unicodeScalars.count > limit ? "…" : "")
    }
}

/// The API's response, with its reason as text for a terminal.
struct DemoAnswer: Sendable {
    var status: Int
    /// The body as JSON; nil without a body.
    var body: [UInt8]?
    var etag: String?
    var location: String?
    /// The value of `Link`.
    var link: String?
    /// The reason for the operator's screen; empty if the status is sufficient.
    var remark = ""
}
