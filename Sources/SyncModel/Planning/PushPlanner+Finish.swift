import FoundationEssentials
import JSONText

/// The results of the whole push, computed after its entries have run.
extension PushPlanner {
    mutating func finish(_ validator: PushValidator) -> PushPlan {
        plan.rejections = Array(validator.rejections.values)
        // a lane that already had queued mutations need not be woken, because a worker already runs it, or will run it
        // after a back-off. In the order `dependencies`, the lane is woken nevertheless, because new mutations do not
        // wait for this back-off.
        let (before, after) = (snapshot.lane.queue.count, plan.lane.queue.count)
        if before == 0 || context.organization.settings.order == .dependencies && after > before {
            plan.lane.wake(now: context.now)
        }
        plan.acceptedSequence = push.entries.reduce(snapshot.watermark) { max($0, $1.sequenceNumber ?? 0) }
        plan.verdicts = push.entries.map { entry in
            if let record = records[entry.index] { return .accepted(record) }
            // a repeat within the push has the result of the first entry
            if let first = validator.repeated[entry.index], let record = records[first] { return .replayed(record) }
            return validator.verdicts[entry.index] ?? .rejected(Problem(.internalError, "the entry was not evaluated"))
        }
        plan.touchedMappings = touchedMappings()
        plan.warnings = warnings()
        // the UUIDs in accepted mutations that are only data
        let strays = validator.accepted.lazy.reversed().flatMap { accepted in
            accepted.mutation.references.lazy.reversed()
                .filter { accepted.references[$0] == nil && $0 != accepted.mutation.entity.clientID }
        }
        plan.unresolvedIDs = snapshot.unresolvedIDs.adding(strays)
        return plan
    }

    /// Warnings for creates with client ids that earlier mutations contained as data.
    ///
    /// A repeat of such a create gets the same warning.
    private func warnings() -> [Int: PushWarning] {
        guard !snapshot.unresolvedIDs.isEmpty else { return [:] }
        var warnings: [Int: PushWarning] = [:]
        for (entry, verdict) in zip(push.entries, plan.verdicts) where verdict.record != nil {
            guard let created = entry.mutation?.created, snapshot.unresolvedIDs.contains(created.clientID) else {
                continue
            }
            warnings[entry.index] = .clientIDWasData
        }
        return warnings
    }

    /// The user's resolved mappings of the client ids in the push, in the order of the push.
    private func touchedMappings() -> [IDMapping] {
        guard !snapshot.mappings.isEmpty || !plan.mappings.isEmpty else { return [] }
        var created = CreatedMappings(plan.mappings)
        var seen: Set<ClientReference> = []
        var touched: [IDMapping] = []
        func touch(_ id: UUID, of type: String? = nil) {
            func isMeant(_ mapping: IDMapping) -> Bool {
                mapping.status == .resolved && (type == nil || mapping.entityType == type)
            }
            for mapping in snapshot.mappings[id] ?? [] where isMeant(mapping) {
                if seen.insert(mapping.reference).inserted { touched.append(mapping) }
            }
            created.take(id, where: isMeant) { touched.append($0) }
        }
        for mutation in push.entries.compactMap(\.mutation) {
            if let name = mutation.entity.reference { touch(name.clientID, of: name.entityType) }
            for id in mutation.references { touch(id) }
            for id in mutation.dependencyIDs { touch(id) }
        }
        for entry in push.entries { snapshot.localIDs.references(of: entry.index).forEach { touch($0.clientID) } }
        return touched
    }
}

/// The mappings that a push creates. The method `take` passes each mapping to `use` at most once.
private struct CreatedMappings {
    private let mappings: [NewMapping]
    private var isTaken: [Bool]
    private var places: ValuesByID<Int>

    init(_ mappings: [NewMapping]) {
        self.mappings = mappings
        isTaken = Array(repeating: false, count: mappings.count)
        places = ValuesByID(capacity: mappings.count)
        for (place, new) in mappings.enumerated() { places.add(place, of: new.mapping.clientID) }
    }

    mutating func take(_ id: UUID, where isMeant: (IDMapping) -> Bool, _ use: (IDMapping) -> Void) {
        places.forEach(of: id) { place in
            guard !isTaken[place], isMeant(mappings[place].mapping) else { return }
            isTaken[place] = true
            use(mappings[place].mapping)
        }
    }
}

/// Bounds on the stored documents into which the patches of a push are merged.
///
/// The size of a push does not limit its work, because a push of a few bytes can patch documents of a megabyte each.
public enum DocumentBounds {
    /// The maximum total size, in bytes, of the documents into which a push merges patches, if the push is committed
    /// together with other pushes.
    ///
    /// A document counts once for each patch.
    public static let light = 524_288
    /// The maximum total size, in bytes, of the documents that a push patches.
    ///
    /// The database can write this number of bytes within the time limit of a statement.
    public static let most = WorkBounds.pushDocuments
}

/// Counts the bytes of the documents that a push reads, patches, merges, and makes by replacing client ids.
///
/// A document counts only if the user sees the entity. If hidden entities counted, a refusal would reveal that they
/// exist. Documents that become visible by a grant of the push itself are counted when the mutation of their entity
/// runs.
struct DocumentCosts {
    private let context: PushPlanner.Context
    private let writer: Writer
    private var cost = WorkCost()
    private var seen: Set<EntityKey> = []
    /// The entities that the push writes, and that the user does not see before the push.
    private var hidden: Set<EntityKey> = []

    init(_ context: PushPlanner.Context, by writer: Writer) {
        self.context = context
        self.writer = writer
    }

    /// Counts the payloads that become larger because server ids replace client ids. Refuses the push if these payloads
    /// are too large in total.
    ///
    /// A server id may have ten times as many bytes as the client id that it replaces.
    mutating func countRewriting(of accepted: [ValidatedMutation], _ localIDs: PushLocalIDs) throws(PushRefusal) {
        for mutation in accepted where !mutation.type.isForwarded {
            cost.rewritten += mutation.enlargedPayloadBytes(localIDs.references(of: mutation.index))
        }
        try check()
    }

    /// Refuses a push with too much work, before anything is merged.
    mutating func count(_ accepted: [ValidatedMutation], _ entities: EntityTable) throws(PushRefusal) {
        // usually all documents together are small
        guard entities.hasUnread || entities.largestDocument * accepted.count > DocumentBounds.light else { return }
        var isCrowded = false
        for mutation in accepted {
            guard let key = key(of: mutation), let state = entities[key] else { continue }
            guard isVisible(state, mutation, entities) else {
                hidden.insert(key)
                continue
            }
            add(mutation, state, key)
            if state.unreadBytes > 0 { isCrowded = true }
        }
        try check()
        // the documents of this push fit into the read limit if they are read without the documents of other pushes
        if isCrowded { throw cost.read > DocumentBounds.light ? .requiresOwnBatch : .isCrowded }
    }

    /// Counts the document of the next mutation if a grant of the push has made it visible.
    mutating func countIfGranted(_ mutation: ValidatedMutation, _ entities: EntityTable) throws(PushRefusal) {
        guard !hidden.isEmpty, let key = key(of: mutation), hidden.contains(key), let state = entities[key],
            isVisible(state, mutation, entities)
        else { return }
        add(mutation, state, key)
        try check()
        guard state.unreadBytes > 0 else { return }
        if context.isBatched { throw .requiresOwnBatch }
        throw .needsDocuments(unread(from: key, state, mutation, entities))
    }

    /// Returns the entities whose documents must be read.
    ///
    /// These are the given entity, and further entities of its type with unread documents that the user sees now. The
    /// total size of the documents is within the read limit.
    private func unread(
        from first: EntityKey,
        _ state: EntityState,
        _ mutation: ValidatedMutation,
        _ entities: EntityTable
    ) -> [EntityKey] {
        var keys = [first]
        var bytes = state.unreadBytes
        for key in hidden { if let state = entities[key], state.unreadBytes == 0 { bytes += state.documentBytes } }
        let others = hidden.filter { $0 != first && $0.type == first.type }
        for key in others.sorted(by: { $0.id < $1.id }) {
            guard let state = entities[key], state.unreadBytes > 0, isVisible(state, mutation, entities) else {
                continue
            }
            bytes += state.unreadBytes
            guard bytes <= context.documentBytes else { break }
            keys.append(key)
        }
        return keys
    }

    private func key(of mutation: ValidatedMutation) -> EntityKey? {
        guard !mutation.type.isForwarded || context.readsForwarded, let id = mutation.serverID else { return nil }
        return EntityKey(type: mutation.mutation.entity.type, id: id.text)
    }

    private func isVisible(_ state: EntityState, _ mutation: ValidatedMutation, _ entities: EntityTable) -> Bool {
        state.isVisible(to: writer.user, mutation.type.visibility, entities.access)
    }

    private mutating func add(_ mutation: ValidatedMutation, _ state: EntityState, _ key: EntityKey) {
        let strategy = mutation.mutation.conflictResolution ?? context.organization.settings.conflictResolution
        // an update on an outdated version ends in a conflict, regardless of earlier writes of this push
        let isPassed = state.run.verdict(on: mutation.mutation.baseVersion, from: writer) == .passed
        let isMerged = mutation.mutation.operation == .update && (!isPassed || strategy == .clientWins)
        if isMerged { cost.merged += state.documentBytes }
        guard seen.insert(key).inserted else { return }
        cost.read += state.documentBytes
        if mutation.mutation.operation == .update { cost.written += state.documentBytes }
    }

    private func check() throws(PushRefusal) {
        if context.isBatched, cost.merged + cost.rewritten > DocumentBounds.light { throw .requiresOwnBatch }
        let made = "that this push makes by replacing client ids"
        try Self.check(cost.rewritten, made, context.documentBytes)
        let changed = cost.rewritten > 0 ? "that this push patches, or makes by replacing client ids," : nil
        try Self.check(cost.written + cost.rewritten, changed ?? "that this push patches", DocumentBounds.most)
        try Self.check(cost.read, "to which this push refers", context.documentBytes)
        try Self.check(cost.merged, "that this preview merges, counted once per patch,", context.mergedBytes)
    }

    private static func check(_ bytes: Int, _ which: String, _ maximum: Int) throws(PushRefusal) {
        guard bytes > maximum else { return }
        let detail =
            "the documents \(which) have more than \(maximum) bytes in total; send its mutations in several pushes"
        throw .problem(Problem(.payloadTooLarge, detail))
    }
}

extension Problem {
    /// The problem of a push that changes too many grants or stays.
    static func tooMany(_ changes: ChannelChanges) -> Problem {
        let detail =
            changes.grants > WorkBounds.pushGrants
            ? "the entities of this push begin or end more than \(WorkBounds.pushGrants) grants of channels "
                + "(each unchanged grant counts half)"
            : "the entities of this push are in, enter or leave more than \(WorkBounds.pushStays) channels "
                + "(a channel counts once for each entity)"
        return Problem(.payloadTooLarge, detail + "; send its mutations in several pushes")
    }
}

extension ValidatedMutation {
    /// The size of the payload with server ids, in bytes; 0 if the known server ids do not enlarge the payload.
    ///
    /// The ids of entities that the push itself creates are not counted, because they are as long as client ids.
    fileprivate func enlargedPayloadBytes(_ related: [LocalReference]) -> Int {
        guard let payload = mutation.payload, mutation.operation != .delete else { return 0 }
        var known: [UUID: ServerID] = [:]
        for (id, reference) in references {
            if case .server(let serverID) = reference.target { known[id] = serverID }
        }
        guard !known.isEmpty else { return 0 }
        let resolver = ReferenceResolver(of: mutation.entity.with(serverID)) { known[$0] }
        let bytes = resolver.payloadBytes(payload, related)
        return bytes > payload.rawCount ? bytes : 0
    }

    /// The server id of an entity that existed before the push.
    fileprivate var serverID: ServerID? {
        if let id = mutation.entity.serverID { return id }
        guard let name = mutation.entity.clientID, case .server(let id) = references[name]?.target else { return nil }
        return id
    }
}
