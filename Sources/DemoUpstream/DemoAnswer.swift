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
