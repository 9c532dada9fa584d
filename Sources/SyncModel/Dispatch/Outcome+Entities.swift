public import FoundationEssentials
import JSONText

extension Dispatch {
    /// Applies the mutation to the built-in store.
    ///
    /// - Parameters:
    ///   - entities: the organization's entities, read under their locks. The method changes these entities.
    ///   - makeID: generates the id of a created entity.
    public func applied(
        to entities: inout EntityTable,
        payload: [UInt8],
        makeID: () -> UUID
    ) -> (outcome: Outcome, version: Int64?) {
        let id = serverID ?? ServerID(makeID())
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
        // a person's decision for `client_wins` remains recorded, even if the mutation was no longer in conflict
        outcome.resolution = result.resolution ?? (result.status == .conflict ? nil : mutation.resolution)
        outcome.responseStatus = result.responseStatus
        outcome.error = result.error ?? (result.status == .succeeded ? mutation.error : nil)
        outcome.lastError = result.lastError
        outcome.lastErrorCode = result.lastError == nil ? nil : result.responseStatus
        return (outcome, result.version)
    }

    /// Replaces the entity's client id in a create's payload with the entity's server id.
    ///
    /// The payload may contain the entity's client id. If the entity has a local id of the device, the payload may
    /// contain the UUID that represents the local id.
    private func naming(_ id: ServerID, in payload: [UInt8]) -> [UInt8] {
        guard mutation.created != nil, let root = try? JSONTree(parsing: payload).root else { return payload }
        return ReferenceResolver(of: mutation.entity.with(id)).payload(root, unresolved: { _ in nil }) ?? payload
    }
}

extension Outcome {
    /// The entity that the outcome writes to the feed or reads from the feed; nil if there is no such entity.
    public func entityKey(of dispatch: Dispatch) -> EntityKey? {
        if case .none = entity, status != .discarded { return nil }
        return serverID.map { EntityKey(type: dispatch.mutation.entity.type, id: $0.text) }
    }

    /// Writes the entity's change to the feed.
    ///
    /// If the mutation was discarded, the method also adds the entity's current state to the error.
    ///
    /// - Parameter entities: the organization's entities, read under their locks. The method changes these entities.
    /// - Returns: the entity's version after the change; nil if the change is not written to the feed.
    public mutating func enterFeed(of dispatch: Dispatch, _ entities: inout EntityTable) -> Int64? {
        guard let key = entityKey(of: dispatch), let id = serverID else { return nil }
        let stored = entities[key]
        // the upstream's answer is only for this user, and this user must not learn that the stored entity exists
        if let stored, !stored.isVisible(to: dispatch.lane.user, dispatch.type.visibility, entities.access) {
            return versionAsIfNew(id, dispatch)
        }
        let version = write(key, id, over: stored, dispatch, &entities)
        guard status == .discarded, let error, let current = entities[key] else { return version }
        self.error = Problem.json(error, current: current.json(type: key.type, id: id))
        return current.version
    }

    /// The version that the user's entity would have if no other user had an entity with the same id.
    ///
    /// Nil if the mutation is not a create, because only a create adds a private entity.
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

    /// - Returns: the entity's version; nil if the outcome does not determine the version.
    private func write(
        _ key: EntityKey,
        _ id: ServerID,
        over stored: EntityState?,
        _ dispatch: Dispatch,
        _ entities: inout EntityTable
    ) -> Int64? {
        guard mayChange(stored, dispatch, entities.access) else {
            // the version is unknown if the upstream lacks an entity that the feed still has
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
            // a document that cannot be decrypted is not patched, and remains unchanged in the feed
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

    /// Whether the state in the feed is later than the state that the request produced.
    ///
    /// Lanes of several users run concurrently, and their answers arrive in any order. A request with an If-Match took
    /// effect on the state that had the ETag in the If-Match. If the feed has neither that state nor the state that the
    /// request produced, the state in the feed is later.
    private func isOvertaken(by stored: EntityState) -> Bool {
        guard evidence == .written, let demandedETag else { return false }
        if stored.isDeleted { return true }
        return stored.etag.map { $0 != demandedETag && $0 != etag } ?? false
    }

    /// Whether the evidence for the outcome permits the gateway to change the stored state.
    private func mayChange(_ stored: EntityState?, _ dispatch: Dispatch, _ access: ChannelAccess) -> Bool {
        let isCreate = dispatch.mutation.operation == .create
        let isPrivate = dispatch.type.visibility == .user
        guard let stored else {
            // a private entity belongs to its creator: an update must not make another user the owner
            return isCreate || (!isPrivate && evidence != .missing)
        }
        switch evidence {
        case .written: return true
        // a 404 proves little, because the upstream also sends it if the path is wrong
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
