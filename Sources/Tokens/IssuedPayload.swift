/// Claims under the names that the settings give them.
struct IssuedPayload: Encodable {
    let texts: [String: String]
    let numbers: [String: Int64]

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        for (name, text) in texts { try container.encode(text, forKey: Name(stringValue: name)) }
        for (name, number) in numbers { try container.encode(number, forKey: Name(stringValue: name)) }
    }
}
