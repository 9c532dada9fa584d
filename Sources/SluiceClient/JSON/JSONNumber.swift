/// A number as JSON writes it, to the digit. `1.0` and `1` are different numbers here.
public struct JSONNumber: Sendable, Hashable {
    /// As RFC 8259 (6) has it: no plus sign, no leading zeros, digits on both sides of a point.
    public let text: String

    /// A whole number.
    public init(_ value: Int64) { text = String(value) }

    /// - Returns: nil for what JSON does not take as a number.
    public init?(_ text: String) {
        guard JSONParser.isNumber(Array(text.utf8)) else { return nil }
        self.text = text
    }

    /// - Returns: nil for infinities and NaN, which JSON cannot write.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    init(checked text: String) { self.text = text }
}
