public import JSONText

/// A member of a type's documents with ids of other entities.
///
/// It contains an id or an array of ids (seed 002, "Object Relations and IDs"). The gateway translates ids of types
/// with device ids there, and nowhere else.
public struct Relation: Sendable, Hashable {
    public static let limit = 100
    public static let maximumNameBytes = 200

    /// A top-level member of the document.
    @Exact public private(set) var member: String
    /// The type of the entity that it refers to.
    @Exact public private(set) var entityType: String
    /// That type's id space; nil while the type is not registered.
    public var idSpace: IDSpace?

    /// Whether a relation may have that name.
    ///
    /// 1 to ``maximumNameBytes`` bytes without control characters.
    public static func isValidMember(_ name: String) -> Bool {
        let bytes = name.utf8
        return !bytes.isEmpty && bytes.count <= maximumNameBytes && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }

    public init(member: String, entityType: String, idSpace: IDSpace?) {
        self.member = member
        self.entityType = entityType
        self.idSpace = idSpace
    }
}

extension EntityType {
    /// Reads the stored form: `{"folderId":"folder"}`, checked when it was written.
    public static func relations(stored json: JSONValue) -> [Relation] {
        (json.members?.map { $0 } ?? []).compactMap { name, value in
            value.string.map { Relation(member: name.string, entityType: $0, idSpace: nil) }
        }
    }

    public var storedRelations: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        for relation in relations {
            writer.name(relation.member)
            writer.string(relation.entityType)
        }
        writer.endObject()
        return writer.bytes
    }
}

extension JSONValue {
    /// The values in some relations of a document, in document order.
    ///
    /// Each value, or each element of an array. Nulls are left out.
    public func values(in relations: [Relation]) -> [RelatedValue] {
        guard !relations.isEmpty, let members else { return [] }
        var found: [RelatedValue] = []
        for (name, value) in members {
            guard let relation = relations.first(where: { name.equals($0.member) }) else { continue }
            if let elements = value.elements {
                for (place, element) in elements.enumerated() where !element.isNull {
                    found.append(RelatedValue(relation: relation, value: element, place: place))
                }
            } else if !value.isNull {
                found.append(RelatedValue(relation: relation, value: value, place: nil))
            }
        }
        return found
    }
}
