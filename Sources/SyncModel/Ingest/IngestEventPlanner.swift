import FoundationEssentials
import JSONText

/// Decides the outcome of one event.
struct IngestEventPlanner {
    let event: IngestEvent
    let context: IngestPlanner.Context
    let type: EntityType
    /// The entity's owner after the event; nil if the event contains no owner.
    private let owner: UUID?
    private let isOwnerJoining: Bool
    /// The JSON Pointer to the event in the request.
    private let pointer: String

    /// - Throws: the reason why the event is not valid in this organization.
    init(_ event: IngestEvent, _ context: IngestPlanner.Context, pointer: String) throws(Problem) {
        self.event = event
        self.context = context
        self.pointer = pointer
        guard let type = context.type(event.entityType) else {
            let detail = "'\(event.entityType)' is not a registered entity type of this organization"
            throw Problem(.validationFailed, pointer: pointer + "/entity_type", rule: Rule.entityType, detail)
        }
        if type.idSpace == .shared, !event.entityID.isInteger, event.entityID.uuid == nil {
            let detail = "a shared global id must be a UUID or an integer"
            throw Problem(.validationFailed, pointer: pointer + "/id", rule: Rule.serverID, detail)
        }
        if event.isPrivate, type.visibility == .organization {
            let detail =
                "entities of '\(type.name)' are visible to the whole organization: set its visibility to user or "
                + "channels first"
            throw Problem(.validationFailed, pointer: pointer + "/private", rule: Rule.entityType, detail)
        }
        if let detail = Self.sizeProblem(event, type) {
            throw Problem(.validationFailed, pointer: pointer + "/document", rule: Rule.range, detail)
        }
        self.type = type
        switch event.owner.map(context.owner) {
        case .user(let owner)?: (self.owner, isOwnerJoining) = (owner, false)
        case .joining?: (owner, isOwnerJoining) = (nil, true)
        case .erased?:
            let isBlanked = type.visibility == .organization && type.onErase == .blankOwner
            guard isBlanked || event.operation == .delete else { throw Self.ownerErased(at: pointer + "/owner") }
            (owner, isOwnerJoining) = (nil, false)
        case nil: (owner, isOwnerJoining) = (nil, false)
        }
    }

    private var key: EntityKey { event.key }

    /// The reason why a document refers to too many entities with local ids; nil if their number is permitted.
    ///
    /// A local id is an entity's number on one device. The number of such entities is limited, because a device that
    /// pulls the document gets a local id for each of them.
    private static func sizeProblem(_ event: IngestEvent, _ type: EntityType) -> String? {
        let relations = type.relations.filter { $0.idSpace == .device }
        guard !relations.isEmpty, let document = event.document,
            let tree = try? JSONTree(parsing: document, limits: .widest)
        else { return nil }
        let (count, limit) = (tree.root.values(in: relations).count, LocalReference.limit)
        guard count > limit else { return nil }
        return "the document's relations hold \(count) ids of types with device ids; at most \(limit) are accepted"
    }

    /// Returns the outcome of the event, and changes the state accordingly.
    ///
    /// - Parameter isBehind: whether older events about the entity are parked. If so, this event must be applied after
    ///   the parked events.
    /// - Throws: the reason why the event does not fit the known state.
    func verdict(
        receivedAt: Timestamp,
        isBehind: Bool,
        _ state: inout IngestState
    ) throws(Problem) -> IngestVerdict {
        var stored = state.entities[key]
        let cause = event.causingKey.flatMap { state.requests[$0] }.flatMap { $0.mayBeAbout(key) ? $0 : nil }
        let mayWait = receivedAt.adding(seconds: IngestPlanner.timeoutSeconds) > context.now
        let hasToQueue = isBehind && !isKnown(stored, state)
        if hasToQueue || mayWait && isWaiting(for: cause, receivedAt, stored, state) {
            guard state.parkedCount < IngestPlanner.parkedLimit else {
                var problem = Problem.overloaded("too many events wait for outcomes")
                problem.errors = [ProblemDetail(pointer: pointer, rule: Rule.range, detail: problem.detail)]
                throw problem
            }
            return answer(.parked)
        }
        // if an edit outside of Sluice was the entity's last write, and this event is newer, the event may contain more
        // than the effect of the gateway's request
        let mayAdd = stored?.lastWriter == .elsewhere && !isKnown(stored, state)
        if let cause, cause.content != nil, !mayAdd { return echo(of: cause, stored, &state) }
        let requests = state.requests(about: key).filter { $0.identifiesByValue(at: context.now) }
        if let version = event.mark.version, let sent = requests.first(where: { $0.version == version }), !mayAdd {
            return echo(of: sent, stored, &state)
        }
        if isKnown(stored, state) { return answer(.stale, stored) }
        let isCompared = requests.contains { $0.content != nil }
        if !isCompared, let stored, let folded = try fold(over: stored, &state) { return folded }
        state.settle(key)
        if let origin = event.originKey { state.settle(origin) }
        stored = state.entities[key]
        let next = try self.next(after: stored, state)
        try checkChannels(next)
        var content: ContentHash?
        if isCompared {
            content = ContentHash(of: next)
            if let content, let sent = requests.first(where: { $0.content == content }) {
                state.use(sent)
                if !mayAdd { return echo(of: sent, stored, &state) }
            }
        }
        return apply(next, content, over: stored, &state)
    }

    // MARK: - Versions

    /// Whether the known state of the entity is at least as recent as the event.
    private func isKnown(_ stored: EntityState?, _ state: IngestState) -> Bool {
        let mark = restartsVersions(over: stored) ? event.mark.withoutVersion : event.mark
        return mark.isKnown(by: state.marks[key])
    }

    /// Whether this event begins a new sequence of the entity's versions.
    ///
    /// In this case, the earlier versions belong to another row of the source, which had the same id.
    private func restartsVersions(over stored: EntityState?) -> Bool {
        switch event.lineage {
        case .continues: false
        case .restartsIfDeleted: stored?.isDeleted ?? false
        case .restarts: true
        }
    }

    /// Records how recent the entity's state is after this event.
    private func mark(over stored: EntityState?, _ state: inout IngestState) {
        if restartsVersions(over: stored) {
            state.restart(key, event.mark)
        } else {
            state.mark(key, event.mark)
        }
    }

    // MARK: - Waiting

    private func isWaiting(
        for cause: SentRecord?,
        _ receivedAt: Timestamp,
        _ stored: EntityState?,
        _ state: IngestState
    ) -> Bool {
        if isOwnerJoining { return true }
        if let cause, cause.isInFlight(at: context.now) { return true }
        // an event that is not more recent than the known state need not wait
        if isKnown(stored, state) { return false }
        if state.requests(about: key).contains(where: { $0.isInFlight(at: context.now) }) { return true }
        // a create in flight may have created the entity if the create was sent before the event arrived
        guard stored == nil, event.operation == .upsert, let first = state.firstCreates[type.name] else { return false }
        return first <= receivedAt
    }

    // MARK: - Echoes

    private func echo(of request: SentRecord, _ stored: EntityState?, _ state: inout IngestState) -> IngestVerdict {
        state.use(request)
        if stored != nil { mark(over: stored, &state) }
        return answer(.echo, stored)
    }

    // MARK: - Applying

    /// Applies a patch in memory, if this transaction has patched this large entity before.
    ///
    /// - Returns: the outcome; nil if the patch is not applied in memory.
    private func fold(over stored: EntityState, _ state: inout IngestState) throws(Problem) -> IngestVerdict? {
        guard event.operation == .patch, !stored.isDeleted, !stored.isUnreadable, let document = stored.document,
            document.count >= IngestBounds.folded, state.patches(key), let patch = event.document,
            let tree = try? JSONTree(parsing: patch, limits: .widest)
        else { return nil }
        try checkOwner(stored)
        switch state.fold(key, document, tree.root, isShallow: event.isShallow) {
        case .unsupported: return nil
        case .tooLong: throw tooLong
        case .unchanged:
            mark(over: stored, &state)
            return answer(.applied, stored)
        case .changed:
            mark(over: stored, &state)
            let next = written(document, over: stored)
            state.write(key, next, nil)
            return answer(.applied, next)
        }
    }

    private var tooLong: Problem {
        let detail = "the document would exceed \(BuiltInStore.maximumDocumentBytes) bytes"
        return refused("/document", Rule.payload, detail)
    }

    /// The state of the entity after the event.
    private func next(after stored: EntityState?, _ state: IngestState) throws(Problem) -> EntityState {
        try checkOwner(stored)
        switch event.operation {
        case .upsert:
            return written(event.document, over: stored)
        case .delete:
            if let stored, stored.isDeleted { return stored }
            return written(nil, over: stored)
        case .patch:
            guard let base = stored.flatMap({ $0.isDeleted ? nil : $0 }) ?? origin(state) else {
                let isOthers = stored == nil && event.originKey.map { state.entities[$0]?.isDeleted == false } ?? false
                let what =
                    isOthers
                    ? "belonged to another user under its old id" : stored == nil ? "is unknown" : "was deleted"
                let detail = "the entity \(what), so it cannot be patched: send the whole document as an upsert"
                throw refused("/operation", Rule.entityReference, detail)
            }
            guard !base.isUnreadable else {
                let detail = "the stored document cannot be decrypted: send the whole document as an upsert"
                throw refused("/operation", Rule.entityReference, detail)
            }
            let merge = event.isShallow ? BuiltInStore.overlay : BuiltInStore.merge
            guard let patch = event.document, let merged = merge(patch, base.document) else { throw tooLong }
            return written(merged, over: stored)
        }
    }

    /// The entity's state in the feed under its former id.
    ///
    /// The value is nil if the feed does not have this state, or if the entity with the former id belongs to another
    /// user.
    private func origin(_ state: IngestState) -> EntityState? {
        guard let origin = event.originKey.flatMap({ state.entities[$0] }), !origin.isDeleted else { return nil }
        return type.visibility == .user && origin.owner != owner ? nil : origin
    }

    private func checkOwner(_ stored: EntityState?) throws(Problem) {
        guard type.visibility == .user else { return }
        guard let stored, !stored.isTombstoneWithoutOwner else {
            // a deletion needs no owner here, because no user sees the entity or its deletion
            guard owner != nil || event.operation == .delete else {
                let detail = "owner is required: an entity of '\(type.name)' is only visible to its owner"
                throw refused("/owner", Rule.required, detail)
            }
            return
        }
        if let owner, owner != stored.owner {
            let detail =
                "the entity belongs, or belonged before its deletion, to another user: use another id for this "
                + "user's entity"
            throw refused("/owner", Rule.entityReference, detail)
        }
    }

    private func checkChannels(_ next: EntityState) throws(Problem) {
        guard let rules = type.channelRules, let document = next.document else { return }
        guard rules.names(document: document, id: event.entityID, owner: next.owner).count > ChannelName.limitOfEntity
        else {
            return
        }
        let detail = "the document puts the entity in more than \(ChannelName.limitOfEntity) channels"
        throw refused("/document", Rule.channelLimit, detail)
    }

    private static func ownerErased(at pointer: String) -> Problem {
        let detail =
            "the owner was permanently erased: no user could see the entity, and no later erasure would delete it"
        return Problem(.userErased, pointer: pointer, rule: Rule.owner, detail)
    }

    private func refused(_ member: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.validationFailed, pointer: pointer + member, rule: rule, detail)
    }

    private func written(_ document: [UInt8]?, over stored: EntityState?) -> EntityState {
        if let stored {
            var next = stored.written(document, isDeleted: document == nil, by: .elsewhere)
            if let owner, stored.isTombstoneWithoutOwner { next.owner = owner }
            return next
        }
        return EntityState(
            isIntegerID: event.entityID.isInteger,
            version: 1,
            isDeleted: document == nil,
            document: document,
            owner: owner ?? Writer.elsewhere.user,
            clientID: nil,
            lastWriter: .elsewhere,
            runBase: 0
        )
    }

    /// Writes the next state, if it differs from the stored state.
    ///
    /// An equal state is not written, because the write would cause conflicts for users.
    ///
    /// - Parameter content: the hash of the next state's content; nil if the hash is not computed yet.
    private func apply(
        _ next: EntityState,
        _ content: ContentHash?,
        over stored: EntityState?,
        _ state: inout IngestState
    ) -> IngestVerdict {
        mark(over: stored, &state)
        var content = content
        if let stored, stored.isDeleted == next.isDeleted {
            content = content ?? ContentHash(of: next)
            if let content, content == state.content(of: key) { return answer(.applied, stored) }
        }
        state.write(key, next, content)
        return answer(.applied, next)
    }

    private func answer(_ result: IngestResult, _ entity: EntityState? = nil) -> IngestVerdict {
        IngestVerdict(eventID: event.id, result, version: entity?.version)
    }
}

extension EntityState {
    /// Whether the entity is a tombstone that no user sees.
    ///
    /// The entity was deleted before any user saw it, or together with its owner. An event about this entity is treated
    /// like an event about a new entity.
    fileprivate var isTombstoneWithoutOwner: Bool {
        isDeleted && (owner == Writer.elsewhere.user || owner == Writer.erased)
    }
}

extension IngestState {
    /// Records how recent the entity's state is.
    fileprivate mutating func mark(_ key: EntityKey, _ mark: SourceMark) {
        let next = mark.merged(with: marks[key])
        guard next != marks[key] else { return }
        marks[key] = next
        changedMarks.insert(key)
    }

    /// Replaces the record of how recent the entity's state is, because its versions start again.
    fileprivate mutating func restart(_ key: EntityKey, _ mark: SourceMark) {
        marks[key] = mark
        changedMarks.insert(key)
    }
}
