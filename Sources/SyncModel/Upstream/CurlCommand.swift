import JSONText

/// A request as a shell command, without the organization's credential.
///
/// The credential is never shown.
public struct CurlCommand: Sendable {
    public let text: String

    public init(_ preview: ReplayPreview) {
        let request = preview.request
        var words = ["curl", "-X", request.method, Self.quoted(preview.baseURL + request.path)]
        for header in request.headers { words += ["-H", Self.quoted("\(header.name): \(header.value)")] }
        if let body = request.body {
            words += ["-H", Self.quoted("content-type: application/json")]
            words += ["--data-raw", Self.quoted(String(decoding: body, as: UTF8.self))]
        }
        text = words.joined(separator: " ")
    }

    /// In single quotes, in which a shell takes every other character as it is.
    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}
