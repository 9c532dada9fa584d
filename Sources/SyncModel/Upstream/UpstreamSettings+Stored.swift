public import JSONText

extension UpstreamCredential {
    /// Reads the stored form; nil for JSON's null and for what is none.
    public init?(stored value: JSONValue) {
        if value.stringEquals("signed") {
            self = .signed
        } else if let token = value.value(at: "/bearer")?.string {
            self = .bearer(token)
        } else if let name = value.value(at: "/header")?.string, let text = value.value(at: "/value")?.string {
            self = .header(name: name, value: text)
        } else {
            return nil
        }
    }
}

extension UpstreamSettings {
    /// Reads the stored form of ``headers``.
    public static func headers(stored value: JSONValue) -> [String: String] {
        guard let members = value.members else { return [:] }
        var headers: [String: String] = [:]
        for (name, value) in members { headers[name.string] = value.string }
        return headers
    }
}
