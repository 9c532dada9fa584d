import FoundationEssentials

/// A value and what is to be written in its place.
public struct JSONEdit: Sendable {
    let value: JSONValue
    let replacement: JSONReplacement

    public init(_ value: JSONValue, _ replacement: JSONReplacement) {
        self.value = value
        self.replacement = replacement
    }
}
