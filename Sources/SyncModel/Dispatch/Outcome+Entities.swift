import FoundationEssentials
import JSONText

extension Dispatch {
    /// Applies the mutation to the built-in store.
    ///
    /// - Parameter entities: the organization's, loaded under their locks; the outcome changes them.
    public func applied(
        to entities: inout EntityTable,
        payload: [UInt8]
    ) -> (outcome: Outcome, version: Int64?) {
        let id = serverID ?? newID
        var write = BuiltInStore.Write(
            operation: mutation.operation,
            id: id,
            clientID: mutation.createdClientID,
            payload: naming(id, in: payload),
            baseVersion: mutation.baseVersion,
            writer: writer,
            type: type,
            // an earlier decision of a person or a strategy takes precedence
            conflictResolution: mutation.resolution ?? mutation.conflictResolution
        )
        write.restores = mutation.resolution == .clientWins && ConflictState(error: mutation.error)?.isDeleted == true
        entities.deletionRoom = EntityRelations.limit
        let result = BuiltInStore.apply(write, type: mutation.entity.type, index: nil, to: &entities)
        var outcome = Outcome(result.status, .init(result.status), of: self)
        outcome.attemptCount = mutation.attemptCount
        outcome.serverID = result.serverID
        // a person's decision for `client_wins` stays recorded, whether or not a conflict remained
        outcome.resolution = result.resolution ?? (result.status == .conflict ? nil : mutation.resolution)
        outcome.responseStatus = result.responseStatus
        outcome.error = result.error ?? (result.status == .succeeded ? mutation.error : nil)
        outcome.lastError = result.lastError
        outcome.lastErrorCode = result.lastError == nil ? nil : result.responseStatus
        return (outcome, result.version)
    }

    /// The entity that the mutation changes or creates in the built-in store.
    var builtInKey: EntityKey? {
        guard let id = serverID ?? (mutation.operation == .create ? newID : nil) else { return nil }
        return EntityKey(type: type.name, id: id.text)
    }

    private var newID: ServerID {
        let user = mutation.keyUser ?? lane.user
        return ServerID(UUID(createdBy: mutation.id, of: user, in: lane.organization, at: mutation.acceptedAt))
    }

    /// Replaces the entity's client id in a create's payload with its server id.
    ///
    /// The payload may contain the entity's client id, or the client id that represents its device id.
    private func naming(_ id: ServerID, in payload: [UInt8]) -> [UInt8] {
        guard mutation.created != nil, let root = try? JSONTree(parsing: payload).root else { return payload }
        return ReferenceResolver(of: mutation.entity.with(id)).payload(root, unresolved: { _ in nil }) ?? payload
    }
}

extension Outcome {
    /// The entity that the outcome writes to the feed, or reads from it; nil if the outcome does neither.
    public func entityKey(of dispatch: Dispatch) -> EntityKey? {
        if case .none = entity, status != .discarded { return nil }
        return serverID.map { EntityKey(type: dispatch.mutation.entity.type, id: $0.text) }
    }

    /// Writes the upstream's change to the feed.
    ///
    /// If the mutation was discarded, adds the entity's current state to the error instead.
    ///
    /// - Parameter entities: the organization's entities, read under their locks. The outcome changes them.
    /// - Returns: the entity's version afterwards; nil if the change is not written to the feed.
    public mutating func enterFeed(of dispatch: Dispatch, _ entities: inout EntityTable) -> Int64? {
        guard let key = entityKey(of: dispatch), let id = serverID else { return nil }
        let stored = entities[key]
        // only this user may read what this user's token shows, and this user must not learn that the entity exists
        if let stored, !stored.isVisible(to: dispatch.lane.user, dispatch.type.visibility, entities.access) {
            return versionAsIfNew(id, dispatch)
        }
        let version = write(key, id, over: stored, dispatch, &entities)
        guard status == .discarded, let error, let current = entities[key] else { return version }
        self.error = Problem.json(error, current: current.json(type: key.type, id: id))
        return current.version
    }

    /// The version that a private entity would get if no other user had an entity with its id.
    ///
    /// Nil unless the outcome is that of a create, because only a create adds a private entity.
    private mutating func versionAsIfNew(_ id: ServerID, _ dispatch: Dispatch) -> Int64? {
        guard case .document(let document, let etag) = entity, dispatch.mutation.operation == .create else {
            return nil
        }
        if status == .discarded, let error {
            let type = dispatch.mutation.entity.type
            let current = CurrentEntity(type: type, id: id, version: 1, etag: etag, document: document)
            self.error = Problem.json(error, current: current.json)
        }
        return 1
    }

    /// - Returns: the entity's version; nil if the outcome does not show it.
    private func write(
        _ key: EntityKey,
        _ id: ServerID,
        over stored: EntityState?,
        _ dispatch: Dispatch,
        _ entities: inout EntityTable
    ) -> Int64? {
        guard mayChange(stored, dispatch, entities.access) else {
            // the mutation's result is an earlier deletion or creation
            return evidence == .missing && stored?.isDeleted == false ? nil : stored?.version
        }
        let next: EntityState
        switch entity {
        case .none: return nil
        case .document where stored.map(isOvertaken) ?? false, .patch where stored.map(isOvertaken) ?? false:
            return stored?.version
        case .document(let document, let etag):
            if evidence == .adopted, let stored, stored.document == document { return stored.version }
            next = state(stored, id, document: document, etag: etag, dispatch)
        case .patch(let patch, let etag):
            // a document that cannot be decrypted is not patched, and is kept unchanged in the feed
            guard let stored, !stored.isDeleted, !stored.isUnreadable,
                let document = BuiltInStore.merge(patch, into: stored.document)
            else { return nil }
            next = state(stored, id, document: document, etag: etag, dispatch)
        case .deleted:
            if let stored, stored.isDeleted { return stored.version }
            next = state(stored, id, document: nil, etag: nil, dispatch)
        }
        entities.write(key, next)
        return next.version
    }

    /// Whether the feed has a later state than the state that the request produced.
    ///
    /// Lanes of several users run concurrently, and their answers arrive in any order. A request with an If-Match took
    /// effect on the state of that ETag. So any state that is neither that state nor the request's own state is later
    /// than both.
    private func isOvertaken(by stored: EntityState) -> Bool {
        guard evidence == .written, let demandedETag else { return false }
        if stored.isDeleted { return true }
        return stored.etag.map { $0 != demandedETag && $0 != etag } ?? false
    }

    /// Whether the evidence for the outcome permits a change of the stored state.
    private func mayChange(_ stored: EntityState?, _ dispatch: Dispatch, _ access: ChannelAccess) -> Bool {
        let isCreate = dispatch.mutation.operation == .create
        let isPrivate = dispatch.type.visibility == .user
        guard let stored else {
            // a private entity belongs to its creator: an update must not make the updating user its owner
            return isCreate || (!isPrivate && evidence != .missing)
        }
        switch evidence {
        case .written: return true
        // a request to a wrong path gets a 404 as well
        case .missing: return isPrivate || stored.lastWriter.isOwn(of: dispatch.lane.user)
        case .created: return stored.mayBeMade(by: dispatch.lane.user)
        case .adopted:
            return UpstreamStateAdoption(
                user: dispatch.lane.user,
                visibility: dispatch.type.visibility,
                isCreate: isCreate,
                access: access
            )
            .isPossible(over: stored, isNewer: !isCreate && stored.version != dispatch.entityVersion)
        }
    }

    private func state(
        _ stored: EntityState?,
        _ id: ServerID,
        document: [UInt8]?,
        etag: String?,
        _ dispatch: Dispatch
    ) -> EntityState {
        let writer = evidence == .adopted ? Writer.adopting(dispatch.lane.user) : dispatch.writer
        var next =
            stored?.written(document, isDeleted: document == nil, by: writer)
            ?? EntityState(
                isIntegerID: id.isInteger,
                version: 1,
                isDeleted: document == nil,
                document: document,
                owner: dispatch.lane.user,
                clientID: dispatch.mutation.createdClientID,
                lastWriter: writer,
                runBase: 0
            )
        next.etag = etag
        return next
    }
}

extension Outcome.Kind {
    fileprivate init(_ status: MutationStatus) {
        switch status {
        case .succeeded: self = .succeeded
        case .discarded: self = .discarded
        case .conflict: self = .conflict
        default: self = .rejected
        }
    }
}
