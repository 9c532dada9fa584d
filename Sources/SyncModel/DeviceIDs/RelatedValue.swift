public import JSONText

/// One id that stands in a relation.
public struct RelatedValue: Sendable {
    /// Where it leads.
    public let relation: Relation
    /// The id, or whatever stands in its place. Not null.
    public let value: JSONValue
    /// Its place where the relation is an array.
    public let place: Int?

    /// Where it stands in the document (RFC 6901).
    public var pointer: String {
        let member = JSONPointer().appending(member: relation.member).text
        return place.map { "\(member)/\($0)" } ?? member
    }
}
