import JSONText

extension JSONValue {
    /// The moment that a string in the form of RFC 3339 stands for; otherwise nil.
    package var timestamp: Timestamp? { withString(Timestamp.init(rfc3339:)) ?? nil }
}
