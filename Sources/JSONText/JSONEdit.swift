import FoundationEssentials

/// A value and its replacement.
public struct JSONEdit: Sendable {
    let value: JSONValue
    let replacement: JSONReplacement

    public init(_ value: JSONValue, _ replacement: JSONReplacement) {
        self.value = value
        self.replacement = replacement
    }
}
