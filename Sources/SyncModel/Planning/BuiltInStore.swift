import FoundationEssentials
import JSONText

/// The effect of one mutation on one entity in the built-in document store. This type does no I/O.
enum BuiltInStore {
    /// The maximum size, in bytes, of a document.
    ///
    /// The size is measured after a patch was merged, and after server ids have replaced the client ids in the payload.
    static let maximumDocumentBytes = 1_048_576

    /// A write of one entity.
    struct Write {
        let operation: Operation
        let id: ServerID
        let clientID: UUID?
        /// The payload, with server ids.
        let payload: [UInt8]
        let baseVersion: Int64?
        let writer: Writer
        let type: EntityType
        let conflictResolution: ConflictResolution
        /// Whether an update may restore a deleted entity.
        ///
        /// True if a person, who saw that the entity was deleted, specified the whole document.
        var restores = false
    }

    enum Outcome {
        /// The write took effect.
        ///
        /// The associated values are the state to write, and the state that a strategy overwrote.
        case applied(EntityState, resolution: ConflictResolution?, current: EntityState?)
        /// The entity is already deleted, and the write changes nothing.
        ///
        /// The associated value is the tombstone; nil if the user must not learn that the tombstone exists.
        case unchanged(EntityState?)
        /// The strategy `server_wins` discarded the mutation, and the current state remains.
        case adopted(current: EntityState?)
        /// The mutation waits for a person. The associated value is the current state; nil if the user must not see it.
        case conflict(current: EntityState?)
        /// The write was refused permanently. The associated values are the status that a REST API would return, and
        /// the reason.
        case refused(status: Int, String)
        /// The user has no right to write.
        case forbidden(String)
    }

    /// - Parameter access: the channels that the writer holds.
    static func decide(
        _ write: Write,
        on stored: EntityState?,
        _ access: ChannelAccess = ChannelAccess()
    ) -> Outcome {
        let outcome = decideByVersion(write, on: stored, access)
        guard write.type.visibility == .channels else { return outcome }
        return write.refusal(of: outcome, on: stored, access) ?? outcome
    }

    private static func decideByVersion(
        _ write: Write,
        on stored: EntityState?,
        _ access: ChannelAccess
    ) -> Outcome {
        // to this user, an invisible entity appears not to exist, although its id is in use
        let state = stored.flatMap { $0.isVisible(to: write.writer.user, write.type.visibility, access) ? $0 : nil }
        switch write.operation {
        case .create:
            guard stored == nil else { return settleCreate(write, current: state) }
            guard write.payload.count <= maximumDocumentBytes else { return tooLarge }
            return .applied(created(write), resolution: nil, current: nil)
        case .delete:
            guard let state, !state.isDeleted else { return .unchanged(state) }
            guard state.accepts(baseVersion: write.baseVersion, from: write.writer) else {
                return settle(write, current: state)
            }
            return apply(write, to: state, resolution: nil)
        case .update, .replace:
            guard let state else {
                return .refused(status: 404, "no \(write.operation.rawValue) is possible: the entity does not exist")
            }
            guard !state.isDeleted, state.accepts(baseVersion: write.baseVersion, from: write.writer) else {
                return settle(write, current: state)
            }
            return apply(write, to: state, resolution: nil)
        }
    }

    /// Settles a create of an existing id. A create never overwrites an entity.
    ///
    /// Therefore a conflict with an entity that exists waits for a person even under `client_wins` (product rule 12,
    /// `shared` types).
    ///
    /// A create with the id of a deleted entity restores the entity, unless another writer deleted it. In that case the
    /// create is in conflict, and `client_wins` restores the entity, because the payload is the whole document.
    private static func settleCreate(_ write: Write, current: EntityState?) -> Outcome {
        if let current, current.isDeleted {
            guard current.lastWriter == write.writer else { return settle(write, current: current) }
            return apply(write, to: current, resolution: nil)
        }
        return write.conflictResolution == .serverWins && current != nil
            ? .adopted(current: current) : .conflict(current: current)
    }

    private static func settle(_ write: Write, current: EntityState) -> Outcome {
        switch write.conflictResolution {
        case .manual: .conflict(current: current)
        case .serverWins: .adopted(current: current)
        // a patch cannot restore the whole entity: the members that the patch does not contain were deleted with the
        // entity
        case .clientWins where current.isDeleted && write.operation == .update && !write.restores:
            .conflict(current: current)
        case .clientWins: apply(write, to: current, resolution: .clientWins)
        }
    }

    private static func created(_ write: Write) -> EntityState {
        EntityState(
            isIntegerID: write.id.isInteger,
            version: 1,
            isDeleted: false,
            document: write.payload,
            owner: write.writer.user,
            clientID: write.clientID,
            lastWriter: write.writer,
            runBase: 0
        )
    }

    private static func apply(_ write: Write, to state: EntityState, resolution: ConflictResolution?) -> Outcome {
        let current = resolution == nil ? nil : state
        switch write.operation {
        case .delete:
            let next = state.written(nil, isDeleted: true, by: write.writer)
            return .applied(next, resolution: resolution, current: current)
        case .create, .replace:
            guard write.payload.count <= maximumDocumentBytes else { return tooLarge }
            let next = state.written(write.payload, isDeleted: false, by: write.writer)
            return .applied(next, resolution: resolution, current: current)
        case .update:
            guard !state.isUnreadable else {
                return .refused(
                    status: 422,
                    "the stored document cannot be decrypted: replace the whole entity, or delete it"
                )
            }
            guard let merged = merge(write.payload, into: state.document) else { return tooLarge }
            let next = state.written(merged, isDeleted: false, by: write.writer)
            return .applied(next, resolution: resolution, current: current)
        }
    }

    private static var tooLarge: Outcome {
        .refused(
            status: 413,
            "the document would exceed \(maximumDocumentBytes) bytes, which include the server ids that replace client "
                + "ids; send a smaller document"
        )
    }

    /// Merges a patch into a document (RFC 7396), and returns the result; nil if it would be too large.
    static func merge(_ patch: [UInt8], into document: [UInt8]?) -> [UInt8]? {
        guard let patch = try? JSONTree(parsing: patch).root,
            let merged = try? JSONValue.mergePatch(target: document, patch: patch),
            merged.count <= maximumDocumentBytes
        else { return nil }
        return merged
    }

    /// Returns the document after the given members have replaced its members of the same names.
    ///
    /// Nil if the result would be too large.
    static func overlay(_ members: [UInt8], over document: [UInt8]?) -> [UInt8]? {
        guard let members = (try? JSONTree(parsing: members, limits: .widest))?.root.members,
            let stored = (try? JSONTree(parsing: document ?? Array("{}".utf8), limits: .widest))?.root.members
        else { return nil }
        let names = Set<ByteExactString>(members.map { $0.name.string })
        let result = JSONWriter.object(capacity: (document?.count ?? 0) + 256) { writer in
            for (name, value) in stored where !names.contains(name.string) {
                writer.name(name.string)
                writer.value(value)
            }
            for (name, value) in members {
                writer.name(name.string)
                writer.value(value)
            }
        }
        return result.count <= maximumDocumentBytes ? result : nil
    }
}

extension BuiltInStore {
    /// The result of a mutation in the transaction that applies it or leaves it waiting.
    struct Result {
        var status: MutationStatus
        var serverID: ServerID?
        var version: Int64?
        var resolution: ConflictResolution?
        /// The status that a REST API would return; nil for a mutation that waits.
        var responseStatus: Int16?
        /// A problem object as JSON.
        var error: [UInt8]?
        var lastError: String?
    }

    /// - Parameter index: the mutation's index in its push; nil if the mutation is applied after that push.
    static func apply(_ write: Write, type: String, index: Int?, to entities: inout EntityTable) -> Result {
        var shown: Set<EntityKey> = []
        return apply(write, type: type, index: index, showing: &shown, to: &entities)
    }

    /// - Parameters:
    ///   - index: the mutation's index in its push; nil if the mutation is applied after that push.
    ///   - shown: entities whose large documents an error of the same push already contains; later errors omit these
    ///     documents.
    static func apply(
        _ write: Write,
        type: String,
        index: Int?,
        showing shown: inout Set<EntityKey>,
        to entities: inout EntityTable
    ) -> Result {
        let key = EntityKey(type: type, id: write.id.text)
        let (outcome, effects, broken) = decideWithRelations(write, key, entities)
        switch outcome {
        case .unchanged(let state):
            return Result(status: .succeeded, serverID: write.id, version: state?.version, responseStatus: 204)
        case .applied(let state, let resolution, let current):
            entities.deletionRoom -= effects.count
            for effect in effects { entities.write(effect.key, effect.state) }
            entities.write(key, state)
            return Result(
                status: .succeeded,
                serverID: write.id,
                version: state.version,
                resolution: resolution,
                responseStatus: write.operation == .create ? 201 : write.operation == .delete ? 204 : 200,
                error: current.map { conflict(write, key, $0, &shown).json }
            )
        case .adopted(let current):
            return Result(
                status: .discarded,
                serverID: write.id,
                version: current?.version,
                resolution: .serverWins,
                responseStatus: 409,
                error: conflict(write, key, current, &shown, broken, index).json
            )
        case .conflict(let current):
            return Result(
                status: .conflict,
                serverID: write.operation == .create && write.type.idSpace.isServerGiven ? nil : write.id,
                responseStatus: 409,
                error: conflict(write, key, current, &shown, broken, index).json,
                lastError: broken?.detail ?? detail(of: write, current)
            )
        case .refused(let status, let detail):
            let rule = "http_\(status)"
            return failed(write, Problem(.upstreamRejected, detail), rule: rule, status: Int16(status), index)
        case .forbidden(let detail):
            return failed(write, Problem(.forbidden, detail), rule: Rule.channelRole, status: 403, index)
        }
    }

    private static func failed(
        _ write: Write,
        _ problem: Problem,
        rule: String,
        status: Int16,
        _ index: Int?
    ) -> Result {
        var problem = problem
        if let index {
            problem.errors = [ProblemDetail(pointer: "/mutations/\(index)", rule: rule, detail: problem.detail)]
        }
        return Result(
            status: .failed,
            serverID: write.operation == .create && write.type.idSpace.isServerGiven ? nil : write.id,
            responseStatus: status,
            error: problem.json,
            lastError: problem.detail
        )
    }

    /// The outcome of a write, and the writes to other entities that must come before this write.
    ///
    /// No strategy overrides a relation (product rule 24). A write that breaks a relation is a conflict or, under
    /// `server_wins`, is discarded.
    private static func decideWithRelations(
        _ write: Write,
        _ key: EntityKey,
        _ entities: EntityTable
    ) -> (Outcome, effects: [(key: EntityKey, state: EntityState)], BrokenRelation?) {
        let stored = entities[key]
        let outcome = decide(write, on: stored, entities.access)
        guard !entities.relations.isEmpty, case .applied = outcome else { return (outcome, [], nil) }
        do throws(BrokenRelation) {
            guard write.operation != .delete else {
                let room = entities.deletionRoom
                let effects = try DeletionPlanner.effects(ofDeleting: key, by: write.writer, in: entities, room: room)
                return (outcome, effects, nil)
            }
            try entities.checkTargets(of: write, on: key)
            return (outcome, [], nil)
        } catch {
            let givesWay = write.conflictResolution == .serverWins && stored != nil
            return (givesWay ? .adopted(current: stored) : .conflict(current: stored), [], error)
        }
    }

    private static func conflict(
        _ write: Write,
        _ key: EntityKey,
        _ current: EntityState?,
        _ shown: inout Set<EntityKey>,
        _ broken: BrokenRelation? = nil,
        _ index: Int? = nil
    ) -> Problem {
        var problem = Problem(.conflict, broken?.detail ?? detail(of: write, current))
        if let broken {
            let pointer = (index.map { "/mutations/\($0)" } ?? "") + (broken.pointer.isEmpty ? "" : "/payload")
            problem.errors = [
                ProblemDetail(pointer: pointer + broken.pointer, rule: broken.rule, detail: broken.detail)
            ]
        }
        guard let current else { return problem }
        problem.isCurrentOmitted = current.isLarge && !shown.insert(key).inserted
        problem.current = current.json(type: key.type, id: write.id, isOutline: problem.isCurrentOmitted)
        return problem
    }

    private static func detail(of write: Write, _ current: EntityState?) -> String {
        if let current, current.isDeleted {
            return current.lastWriter == write.writer
                ? "this device deleted the entity before" : "another writer deleted the entity"
        }
        if write.operation == .create { return "an entity with this id exists" }
        guard let current else { return "another writer changed the entity" }
        guard let base = write.baseVersion else { return "another writer changed the entity" }
        return current.run.conflictDescription(on: base)
    }
}

extension BuiltInStore.Write {
    /// The reason why a write of a type with channels is refused regardless of the entity's version (product rule 27).
    ///
    /// - Returns: nil if the write is allowed, or if the entity remains unchanged.
    fileprivate func refusal(
        of outcome: BuiltInStore.Outcome,
        on stored: EntityState?,
        _ access: ChannelAccess
    ) -> BuiltInStore.Outcome? {
        if operation == .create {
            let names = type.channelRules?.names(document: payload, id: id, owner: stored?.owner ?? writer.user) ?? []
            guard names.count <= ChannelName.limitOfEntity else { return Self.tooManyChannels }
            guard access.role(of: writer.user, on: names.map(ChannelID.init(named:))) == .write else {
                return .forbidden("you may not write to any channel of the new entity")
            }
        }
        if let stored, let role = access.role(of: writer.user, on: stored.channels ?? []), role != .write {
            if case .unchanged = outcome { return nil }
            if operation == .create, !stored.isDeleted { return nil }
            return .forbidden("you may read the entity, but not write it")
        }
        guard case .applied(let next, _, _) = outcome, let document = next.document, operation != .create else {
            return nil
        }
        let names = type.channelRules?.names(document: document, id: id, owner: next.owner) ?? []
        return names.count > ChannelName.limitOfEntity ? Self.tooManyChannels : nil
    }

    private static var tooManyChannels: BuiltInStore.Outcome {
        .refused(status: 422, "\(Rule.channelLimit): an entity may be in at most \(ChannelName.limitOfEntity) channels")
    }
}
