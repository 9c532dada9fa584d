import JSONText

/// The reason why a write would break a relation (product rule 24).
struct BrokenRelation: Error {
    let rule: String
    let detail: String
    /// The JSON Pointer to the reference in the payload; empty for a deletion.
    var pointer = ""

    /// The write refers to a deleted entity.
    static func toDeleted(_ value: RelatedValue, _ target: EntityKey) -> BrokenRelation {
        BrokenRelation(
            rule: Rule.deletedTarget,
            detail: "the payload refers to '\(target.type)' \(target.id), which was deleted",
            pointer: value.pointer
        )
    }

    /// Other entities refer to the entity that would be deleted.
    ///
    /// - Parameter name: one of the other entities; nil if the user must not learn that it exists.
    static func referred(by name: EntityKey?) -> BrokenRelation {
        let what = name.map { "'\($0.type)' \($0.id) refers" } ?? "entities of other users refer"
        return BrokenRelation(rule: Rule.referredTo, detail: "\(what) to an entity that would be deleted")
    }

    static var tooMany: BrokenRelation {
        let detail =
            "more than \(EntityRelations.limit) entities, or more data or grants of channels than fit into one step, "
            + "refer to entities that this step would delete"
        return BrokenRelation(rule: Rule.referredTo, detail: detail)
    }
}

/// Decides the effects of a deletion on the entities that refer to the deleted entity. This type does no I/O.
struct DeletionPlanner {
    private let root: EntityKey
    private let writer: Writer
    private let entities: EntityTable
    /// The number of further entities that may be deleted or changed.
    private let room: Int
    /// The entity to delete, followed by the entities that the rule `cascade` deletes, in the order in which they were
    /// found.
    private var deleted: [EntityKey]
    private var isDeleted: Set<EntityKey>
    private var changed: [EntityKey: EntityState] = [:]
    /// The keys of ``changed`` in the order in which they were found.
    private var order: [EntityKey] = []
    /// The number of further grants of channels that may begin or end.
    private var grantRoom = DeletionPlanner.grantLimit
    /// The entities that forbid the deletion, except if the deletion also deletes them.
    private var restricting: [EntityKey] = []

    /// The maximum number of grants of channels that one deletion begins or ends, apart from the grants of the root.
    ///
    /// Even a push or a lane's step with only this deletion must write all effects of the deletion in one transaction.
    static let grantLimit = WorkBounds.pushGrants - ChannelRules.limitOfGrants

    /// Returns the writes that precede the deletion.
    ///
    /// An entity is written after the entities that refer to it.
    static func effects(
        ofDeleting root: EntityKey,
        by writer: Writer,
        in entities: EntityTable,
        room: Int
    ) throws(BrokenRelation) -> [(key: EntityKey, state: EntityState)] {
        guard entities.relations.isTarget(root.type) else { return [] }
        var planner = DeletionPlanner(root, writer, entities, room: room)
        return try planner.plan()
    }

    private init(_ root: EntityKey, _ writer: Writer, _ entities: EntityTable, room: Int) {
        self.root = root
        self.writer = writer
        self.entities = entities
        self.room = room
        deleted = [root]
        isDeleted = [root]
    }

    private mutating func plan() throws(BrokenRelation) -> [(key: EntityKey, state: EntityState)] {
        var next = 0
        while next < deleted.count {
            let target = deleted[next]
            next += 1
            guard let referrers = entities.referrers(of: target) else { throw .tooMany }
            for key in referrers.sorted(by: { ($0.type, $0.id) < ($1.type, $1.id) }) where !isDeleted.contains(key) {
                try add(key, referringTo: target)
            }
        }
        if let key = restricting.first(where: { !isDeleted.contains($0) }) { throw .referred(by: shown(key)) }
        return order.reversed().compactMap { key in changed[key].map { (key, $0) } }
    }

    private mutating func add(_ key: EntityKey, referringTo target: EntityKey) throws(BrokenRelation) {
        guard let stored = entities[key], let state = changed[key] ?? entities[key], !state.isDeleted else { return }
        guard state.unreadBytes == 0, !state.isTarget else { throw .tooMany }
        // a document that cannot be decrypted may refer to the entity
        let rules = state.isUnreadable ? [.restrict] : entities.rules(of: key, state, to: target)
        if rules.contains(.restrict) {
            restricting.append(key)
        } else if rules.contains(.cascade) {
            set(key, stored.written(nil, isDeleted: true, by: writer))
            isDeleted.insert(key)
            deleted.append(key)
        } else if rules.contains(.setNull) {
            let document = entities.relations.removing(target, from: state.document, of: key.type)
            set(key, stored.written(document ?? state.document, isDeleted: false, by: writer))
        }
        guard order.count <= room, grantRoom >= 0 else { throw .tooMany }
    }

    private mutating func set(_ key: EntityKey, _ state: EntityState) {
        guard changed.updateValue(state, forKey: key) == nil else { return }
        order.append(key)
        // a change of the document can end all grants of the entity, and begin as many others
        if let stored = entities[key] { grantRoom -= (state.isDeleted ? 1 : 2) * entities.grantCount(of: stored, key) }
    }

    private func shown(_ key: EntityKey) -> EntityKey? {
        let visibility = entities.relations.visibility(of: key.type)
        return entities[key].flatMap { $0.isVisible(to: writer.user, visibility, entities.access) ? key : nil }
    }
}

extension EntityTable {
    /// Checks the references in a payload, which has server ids in place of client ids.
    ///
    /// A reference that the entity already has is not checked again.
    func checkTargets(of write: BuiltInStore.Write, on key: EntityKey) throws(BrokenRelation) {
        let own = relations.of(key.type)
        guard !own.isEmpty, let root = (try? JSONTree(parsing: write.payload, limits: .widest))?.root else { return }
        lazy var known = relations.references(in: self[key]?.document, of: key.type)
        for value in root.values(in: own).prefix(EntityRelations.referenceLimit) {
            guard let reference = EntityReference(value), reference.target != key,
                let state = self[reference.target], state.isDeleted,
                state.isVisible(to: write.writer.user, relations.visibility(of: reference.target.type), access),
                !known.contains(reference)
            else { continue }
            throw .toDeleted(value, reference.target)
        }
    }

    /// The rules of the relations through which an entity refers to another entity.
    fileprivate func rules(of key: EntityKey, _ state: EntityState, to target: EntityKey) -> Set<DeletionRule> {
        let references = relations.references(in: state.document, of: key.type)
        let members = references.filter { $0.target == target }.map(\.member)
        return Set(relations.of(key.type).filter { members.contains($0.member) }.map(\.onDelete))
    }
}
