import JSONText

/// The action if an entity is deleted while other entities refer to it by a relation (product rule 24).
public enum DeletionRule: String, Sendable, Hashable, CaseIterable {
    /// The deletion is a conflict as long as another entity refers to the entity.
    case restrict
    /// Entities that refer to the deleted entity are deleted, too.
    case cascade
    /// The reference is removed from the entities that refer to the deleted entity.
    case setNull = "set_null"
    /// There is no action, and entities may refer to deleted entities.
    case ignore
}

/// The enforced relations of an organization, which are the relations between types of the built-in store.
///
/// Relations of forwarded types are not enforced by the gateway, because the organization's API decides about these
/// types.
public struct EntityRelations: Sendable {
    /// The maximum number of entities that one push, or one step of a lane, deletes or changes because of references to
    /// deleted entities.
    public static let limit = 1_000
    /// The maximum number of references in one document that are enforced.
    ///
    /// Further references are not checked, and are not found when their target is deleted.
    static let referenceLimit = LocalReference.limit

    private var relations: [ByteExactString: [Relation]] = [:]
    /// The visibility of each type that has relations or is the target of relations.
    private var visibilities: [ByteExactString: Visibility] = [:]
    private var targets: Set<ByteExactString> = []

    public init() {}

    /// - Parameter types: all types of the organization.
    public init(_ types: [ByteExactString: EntityType]) {
        for (name, type) in types where !type.isForwarded && !type.relations.isEmpty {
            let enforced = type.relations.filter { relation in
                relation.onDelete != .ignore && types[relation.entityType].map { !$0.isForwarded } ?? false
            }
            guard !enforced.isEmpty else { continue }
            relations[name] = enforced
            visibilities[name] = type.visibility
            for relation in enforced {
                targets.insert(ByteExactString(relation.entityType))
                visibilities[relation.entityType] = types[relation.entityType]?.visibility
            }
        }
    }

    public var isEmpty: Bool { relations.isEmpty }

    /// The enforced relations of a type's documents.
    public func of(_ type: String) -> [Relation] { relations.isEmpty ? [] : relations[type] ?? [] }

    /// Whether a type is the target of enforced relations.
    public func isTarget(_ type: String) -> Bool { !targets.isEmpty && targets.contains(ByteExactString(type)) }

    /// Whether a type has enforced relations and is also the target of enforced relations.
    ///
    /// Deletions of other entities may delete entities of this type, and these deletions may affect further entities.
    public func isChained(_ type: String) -> Bool { isTarget(type) && relations[type] != nil }

    func visibility(of type: String) -> Visibility { visibilities[type] ?? .user }

    /// The relations with the rule `cascade`.
    public var cascading: [(type: String, member: String)] {
        relations.sorted { $0.key < $1.key }.flatMap { type, relations in
            relations.filter { $0.onDelete == .cascade }.map { (type.string, $0.member) }
        }
    }

    /// The references in a document, without duplicates and up to a limit.
    public func references(in document: [UInt8]?, of type: String) -> Set<EntityReference> {
        let relations = of(type)
        guard !relations.isEmpty, let document,
            let root = (try? JSONTree(parsing: document, limits: .widest))?.root
        else { return [] }
        return Set(root.values(in: relations).prefix(Self.referenceLimit).compactMap(EntityReference.init))
    }

    /// The document without a reference. A single id is replaced by `null`, and an id in an array is removed.
    ///
    /// Nil if the document cannot be read.
    func removing(_ target: EntityKey, from document: [UInt8]?, of type: String) -> [UInt8]? {
        guard let document, let members = (try? JSONTree(parsing: document, limits: .widest))?.root.members else {
            return nil
        }
        let relations = of(type).filter { $0.onDelete == .setNull && $0.entityType == target.type }
        func isTargetID(_ value: JSONValue) -> Bool { ServerID(json: value).map { $0.text == target.id } ?? false }
        return JSONWriter.object(capacity: document.count) { writer in
            for (name, value) in members {
                writer.name(name.string)
                let isRelation = relations.contains { name.equals($0.member) }
                if isRelation, let elements = value.elements {
                    writer.beginArray()
                    for element in elements where !isTargetID(element) { writer.value(element) }
                    writer.endArray()
                } else if isRelation, isTargetID(value) {
                    writer.null()
                } else {
                    writer.value(value)
                }
            }
        }
    }
}

/// A reference of a document to an entity.
public struct EntityReference: Sendable, Hashable {
    /// The member that contains the reference.
    @Exact public private(set) var member: String
    public let target: EntityKey

    /// Creates a reference; nil for a value that is not an id.
    init?(_ value: RelatedValue) {
        guard let id = ServerID(json: value.value) else { return nil }
        member = value.relation.member
        target = EntityKey(type: value.relation.entityType, id: id.text)
    }
}

/// The entities that refer to an entity that is to be deleted.
public struct FoundReferrers: Sendable {
    public var entities: Set<EntityKey> = []
    /// Whether not all of these entities were read, because there are too many.
    public var isCut = false

    public init() {}
}
