import JSONText

extension JSONValue {
    /// The moment in a string in the form of RFC 3339; nil for other values.
    package var timestamp: Timestamp? { withString(Timestamp.init(rfc3339:)) ?? nil }
}
