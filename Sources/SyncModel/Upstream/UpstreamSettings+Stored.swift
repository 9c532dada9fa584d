public import JSONText

extension UpstreamCredential {
    /// Reads the stored form; nil for JSON's null and for an invalid one.
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

    /// The stored form, secrets included.
    public var stored: [UInt8] {
        var writer = JSONWriter()
        switch self {
        case .signed:
            writer.string("signed")
        case .bearer(let token):
            writer.beginObject()
            writer.member("bearer", token)
            writer.endObject()
        case .header(let name, let value):
            writer.beginObject()
            writer.member("header", name)
            writer.member("value", value)
            writer.endObject()
        }
        return writer.bytes
    }
}

extension UpstreamSettings {
    public static func headers(stored value: JSONValue) -> [ByteExactString: String] {
        guard let members = value.members else { return [:] }
        var headers: [ByteExactString: String] = [:]
        for (name, value) in members { headers[name.string] = value.string }
        return headers
    }

    /// The stored form of ``headers``, by name.
    public var storedHeaders: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            writer.name(name)
            writer.string(value)
        }
        writer.endObject()
        return writer.bytes
    }
}
