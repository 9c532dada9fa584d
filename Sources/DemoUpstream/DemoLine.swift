/// The terminal's line about a request to the demo's REST API.
enum DemoLine {
    /// Characters of a target and of a body, at most.
    private static let limit = 120

    static func text(_ request: DemoRequest, _ answer: DemoAnswer) -> String {
        var line = "upstream: \(request.method) \(cut(request.target)) → \(answer.status)"
        if !answer.remark.isEmpty { line += " (\(cut(answer.remark)))" }
        if !request.body.isEmpty { line += "  \(cut(String(decoding: request.body, as: UTF8.self)))" }
        return line
    }

    /// Without control characters, which a terminal would interpret.
    private static func cut(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(limit).filter { $0.properties.generalCategory != .control }
        return String(String.UnicodeScalarView(shown)) + (text.unicodeScalars.count > limit ? "…" : "")
    }
}

/// The API's response, with its reason as text for a terminal.
struct DemoAnswer: Sendable {
    var status: Int
    /// JSON; nil for none.
    var body: [UInt8]?
    var etag: String?
    var location: String?
    /// `Link`.
    var link: String?
    /// For the operator's screen; empty if the status is sufficient.
    var remark = ""
}
