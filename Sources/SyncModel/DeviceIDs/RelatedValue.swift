public import JSONText

/// One value in a relation.
public struct RelatedValue: Sendable {
    public let relation: Relation
    /// An id or, in an invalid payload, another value. Not null.
    public let value: JSONValue
    /// The index where the relation is an array.
    public let place: Int?

    /// Its place in the document (RFC 6901).
    public var pointer: String {
        let member = JSONPointer().appending(member: relation.member).text
        return place.map { "\(member)/\($0)" } ?? member
    }
}
