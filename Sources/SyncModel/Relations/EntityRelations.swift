import JSONText

/// The action if an entity is deleted to which others refer by a relation (product rule 24).
public enum DeletionRule: String, Sendable, Hashable, CaseIterable {
    /// The deletion is a conflict while an entity refers to the deleted entity.
    case restrict
    /// Entities that refer to the deleted entity are deleted, too.
    case cascade
    /// The reference is removed from the entities that have it.
    case setNull = "set_null"
    /// No action: entities may refer to deleted entities.
    case ignore
}

/// The enforced relations of an organization: the relations between two types of the built-in store.
///
/// The organization's API decides about types that are forwarded to it.
public struct EntityRelations: Sendable {
    /// The maximum number of entities that one push, or one turn of a lane, deletes or changes because they refer to
    /// deleted entities.
    public static let limit = 1_000
    /// The maximum number of ids in one document's relations. References after these are not checked, and a deletion of
    /// their target does not find them.
    static let referenceLimit = LocalReference.limit

    private var relations: [ByteExactString: [Relation]] = [:]
    /// The visibilities of the types on both sides of relations.
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

    /// Whether enforced relations refer to a type.
    public func lead(to type: String) -> Bool { !targets.isEmpty && targets.contains(ByteExactString(type)) }

    /// Whether a type has enforced relations and is also the target of enforced relations, so that deletions of other
    /// entities may delete its entities.
    public func link(_ type: String) -> Bool { lead(to: type) && relations[type] != nil }

    func visibility(of type: String) -> Visibility { visibilities[type] ?? .user }

    /// Relations whose entities are deleted together with the entities to which they refer.
    public var cascading: [(type: String, member: String)] {
        relations.sorted { $0.key < $1.key }.flatMap { type, relations in
            relations.filter { $0.onDelete == .cascade }.map { (type.string, $0.member) }
        }
    }

    /// The distinct references of a document, up to a limit.
    public func references(in document: [UInt8]?, of type: String) -> Set<EntityReference> {
        let relations = of(type)
        guard !relations.isEmpty, let document,
            let root = (try? JSONTree(parsing: document, limits: .widest))?.root
        else { return [] }
        return Set(root.values(in: relations).prefix(Self.referenceLimit).compactMap(EntityReference.init))
    }

    /// The document without a reference: `null` in place of the id, or an array without the id.
    ///
    /// Nil for a document that cannot be read.
    func removing(_ target: EntityKey, from document: [UInt8]?, of type: String) -> [UInt8]? {
        guard let document, let members = (try? JSONTree(parsing: document, limits: .widest))?.root.members else {
            return nil
        }
        let relations = of(type).filter { $0.onDelete == .setNull && $0.entityType == target.type }
        func isTarget(_ value: JSONValue) -> Bool { ServerID(json: value).map { $0.text == target.id } ?? false }
        return JSONWriter.object(capacity: document.count) { writer in
            for (name, value) in members {
                writer.name(name.string)
                let isRelation = relations.contains { name.equals($0.member) }
                if isRelation, let elements = value.elements {
                    writer.beginArray()
                    for element in elements where !isTarget(element) { writer.value(element) }
                    writer.endArray()
                } else if isRelation, isTarget(value) {
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
    /// The relation.
    @Exact public private(set) var member: String
    public let target: EntityKey

    /// Nil for a value that is not an id.
    init?(_ value: RelatedValue) {
        guard let id = ServerID(json: value.value) else { return nil }
        member = value.relation.member
        target = EntityKey(type: value.relation.entityType, id: id.text)
    }
}

/// The entities that refer to an entity that is to be deleted.
public struct FoundReferrers: Sendable {
    public var entities: Set<EntityKey> = []
    /// Whether there are too many such entities, so that not all of them were read.
    public var isCut = false

    public init() {}
}
