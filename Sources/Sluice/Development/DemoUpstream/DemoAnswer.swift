/// The API's answer, and its reason in words for a terminal.
struct DemoAnswer: Sendable {
    var status: Int
    /// JSON; nil for none.
    var body: [UInt8]?
    var etag: String?
    var location: String?
    /// `Link`.
    var link: String?
    /// For the operator's screen; empty when the status says it all.
    var remark = ""
}
