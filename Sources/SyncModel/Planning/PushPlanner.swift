public import FoundationEssentials
import JSONText

/// Decides everything about one push. This type does no I/O.
///
/// The planner decides which entries are repeats, and which are refused or accepted. It also decides the immediate
/// effects of entries that have types in the built-in store. It reads the snapshot and the entities, and returns a
/// plan, which the caller writes.
public struct PushPlanner {
    let push: PushRequest
    let snapshot: PushSnapshot
    let context: Context
    private var entities: EntityTable
    var plan = PushPlan()
    /// Records of this push's accepted entries, by index.
    private(set) var records: [MutationRecord?]
    /// The server ids of entities that this push's creates made, by index.
    private var createdIDs: [ServerID?]
    /// Entities whose large documents are already contained in an error of this push.
    private var shown: Set<EntityKey> = []

    /// - Parameter entities: the organization's entities after the previous pushes of the commit group. The method
    ///   changes these entities.
    /// - Throws: ``PushRefusal``. If the refusal is a ``PushRefusal/problem(_:)``, `entities` is unchanged, and the
    ///   problem contains the state of the user's quota for the `RateLimit` header.
    public static func plan(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        context: Context,
        entities: inout EntityTable
    ) throws(PushRefusal) -> PushPlan {
        do throws(PushRefusal) {
            return try decide(push, snapshot, context, &entities)
        } catch {
            guard case .problem(var problem) = error, problem.quotaStatus == nil else { throw error }
            problem.quotaStatus = try MutationAllowance.spend(0, snapshot.allowance, context)?.quotaStatus
            throw .problem(problem)
        }
    }

    private static func decide(
        _ push: PushRequest,
        _ snapshot: PushSnapshot,
        _ context: Context,
        _ entities: inout EntityTable
    ) throws(PushRefusal) -> PushPlan {
        if let after = push.afterSequence, after > snapshot.watermark {
            var problem = Problem(
                .sequenceGap,
                "after_sequence is \(after), but the gateway has this device's mutations only up to "
                    + "\(snapshot.watermark); send the mutations after \(snapshot.watermark) first"
            )
            problem.expected = snapshot.watermark
            throw .problem(problem)
        }
        let validator = PushValidator(push, snapshot: snapshot, of: context.organization, types: context.type)
        if validator.needsProbe { throw .needsProbe }
        if context.isStrict, let problem = validator.strictProblem() {
            // the problem must list all refused entries, which requires that every key, id and client id was looked up
            throw snapshot.isComplete ? .problem(problem) : .needsProbe
        }
        let isOneTooMany = !snapshot.isDeviceKnown && (snapshot.deviceCount ?? 0) >= context.deviceLimit
        if isOneTooMany, validator.newCount > 0 {
            // an apparently new entry may be a repeat, which is answered even if the user has too many devices
            throw snapshot.isComplete ? .problem(.oneDeviceTooMany(limit: context.deviceLimit)) : .needsProbe
        }
        let allowance: (bucket: TokenBucket, quotaStatus: QuotaStatus)?
        do throws(PushRefusal) {
            allowance = try MutationAllowance.spend(validator.newCount, snapshot.allowance, context)
        } catch {
            // an apparently new entry may be a repeat, which uses no quota
            throw snapshot.isComplete ? error : .needsProbe
        }
        var costs = DocumentCosts(context, by: Writer(user: context.user, device: push.deviceID))
        try costs.countRewriting(of: validator.accepted, snapshot.localIDs)
        try costs.count(validator.accepted, entities)
        var planner = PushPlanner(push, snapshot, context, entities)
        // a batched push needs no copy of the entities: if the push requires its own batch, the caller discards the
        // group's entities
        let unchanged = context.isBatched ? nil : entities
        // only one variable may hold the table at a time, because a table in two variables is copied at its next write
        entities = entities.emptied
        planner.entities.reserve(validator.accepted.count)
        do throws(PushRefusal) {
            try planner.run(validator.accepted, &costs)
        } catch {
            entities = unchanged ?? planner.entities
            throw error
        }
        entities = planner.entities
        var plan = planner.finish(validator)
        plan.allowance = validator.newCount > 0 ? allowance?.bucket : nil
        plan.quotaStatus = allowance?.quotaStatus
        // if the device exceeds the limit, this line is reached only if no entry gets a record, for example because all
        // entries are repeats
        if isOneTooMany { plan.acceptedSequence = snapshot.watermark }
        // an unknown device is stored only if one of its entries is stored; otherwise refused pushes could create an
        // unlimited number of devices
        let isAllRefused = plan.rejections.isEmpty && plan.verdicts.allSatisfy { $0.record == nil }
        if !snapshot.isDeviceKnown, isAllRefused { plan.acceptedSequence = snapshot.watermark }
        return plan
    }

    /// Runs the mutations.
    ///
    /// Throws if one transaction cannot contain all changes of grants and stays, or all documents that the push's own
    /// grants make visible.
    private mutating func run(_ accepted: [ValidatedMutation], _ costs: inout DocumentCosts) throws(PushRefusal) {
        let before = entities.channelChanges
        for mutation in accepted {
            try costs.countIfGranted(mutation, entities)
            run(mutation)
            let changes = entities.channelChanges - before
            guard changes.exceed(context.isBatched ? .group : .push) else { continue }
            throw context.isBatched ? .requiresOwnBatch : .problem(.tooMany(changes))
        }
    }

    private init(_ push: PushRequest, _ snapshot: PushSnapshot, _ context: Context, _ entities: EntityTable) {
        self.push = push
        self.snapshot = snapshot
        self.context = context
        self.entities = entities
        self.entities.deletionRoom = EntityRelations.limit
        records = Array(repeating: nil, count: push.entries.count)
        createdIDs = Array(repeating: nil, count: push.entries.count)
        plan.lane = snapshot.lane
        plan.lane.change()
    }

    // MARK: - One accepted mutation

    private mutating func run(_ accepted: ValidatedMutation) {
        let mutation = accepted.mutation
        let unmet = unmetDependencies(of: accepted)
        var result = BuiltInStore.Result(
            status: unmet.isEmpty ? .pending : .blocked,
            serverID: mutation.entity.serverID ?? (mutation.created == nil ? serverID(of: accepted) : nil)
        )
        // a forwarded mutation does not run here, but is sent after this commit; it makes the lane busy, and therefore
        // every later mutation of the push is queued
        if unmet.isEmpty, !accepted.type.isForwarded, plan.lane.isFree {
            result = apply(accepted, serverID: result.serverID)
        }
        let record = MutationRecord(
            mutation,
            deviceID: push.deviceID,
            position: plan.lane.nextPosition,
            result,
            dependsOn: unmet,
            fingerprint: mutation.fingerprint(noting: snapshot.localIDs.references(of: accepted.index)),
            acceptedAt: context.now
        )
        plan.lane.append(record, halts: context.organization.settings.halts(at: record.status))
        addMapping(for: accepted, record)
        recordLocalIDs(of: accepted, record)
        if !accepted.type.isInUse, !plan.typesToRegister.contains(where: { $0.name == accepted.type.name }) {
            plan.typesToRegister.append(accepted.type)
        }
        records[accepted.index] = record
        plan.mutations.append(
            NewMutation(
                mutation: mutation,
                record: record,
                priority: mutation.priority ?? accepted.type.defaultPriority,
                conflictResolution: conflictResolution(of: mutation),
                references: record.status.isFinal ? [] : accepted.clientReferences
            )
        )
    }

    private func conflictResolution(of mutation: Mutation) -> ConflictResolution {
        mutation.conflictResolution ?? context.organization.settings.conflictResolution
    }

    /// The mutations on which the given mutation depends, and which have not succeeded yet.
    private func unmetDependencies(of accepted: ValidatedMutation) -> [UUID] {
        var unmet = accepted.stored
        for entry in accepted.entries {
            guard let record = records[entry], !record.satisfiesDependants, !unmet.contains(record.id) else { continue }
            unmet.append(record.id)
        }
        return unmet
    }

    /// The server id of the mutation's own entity, found by the entity's client id; nil while the server id is unknown.
    private func serverID(of accepted: ValidatedMutation) -> ServerID? {
        accepted.mutation.entity.clientID.flatMap { Self.serverID(of: accepted.references[$0]?.target, createdIDs) }
    }

    /// The server id to which a client id resolves; nil while the server id is unknown.
    private static func serverID(of target: ValidatedMutation.Target?, _ createdIDs: [ServerID?]) -> ServerID? {
        switch target {
        case .server(let id): id
        case .entry(let entry): createdIDs[entry]
        case .mutation, nil: nil
        }
    }

    private mutating func apply(_ accepted: ValidatedMutation, serverID: ServerID?) -> BuiltInStore.Result {
        let mutation = accepted.mutation
        let id = serverID ?? ServerID(context.makeID())
        let write = BuiltInStore.Write(
            operation: mutation.operation,
            id: id,
            clientID: mutation.createdClientID,
            payload: payload(of: accepted, ownID: id),
            baseVersion: mutation.baseVersion,
            writer: Writer(user: context.user, device: push.deviceID),
            type: accepted.type,
            conflictResolution: conflictResolution(of: mutation)
        )
        return BuiltInStore.apply(
            write,
            type: mutation.entity.type,
            index: accepted.index,
            showing: &shown,
            to: &entities
        )
    }

    /// The payload, with server ids in place of client ids.
    private func payload(of accepted: ValidatedMutation, ownID: ServerID) -> [UInt8] {
        guard accepted.mutation.operation != .delete, let payload = accepted.mutation.payload else { return [] }
        let mutation = accepted.mutation
        let related = snapshot.localIDs.references(of: accepted.index)
        // usually there are no ids to replace
        let namesItself = mutation.entity.clientID.map { mutation.references.contains($0) } ?? false
        if accepted.references.isEmpty, related.isEmpty, !namesItself { return Array(payload.raw) }
        let (references, createdIDs) = (accepted.references, createdIDs)
        let resolver = ReferenceResolver(of: mutation.entity.with(ownID)) {
            Self.serverID(of: references[$0]?.target, createdIDs)
        }
        return resolver.payload(payload, related, unresolved: { _ in nil }) ?? Array(payload.raw)
    }

    private mutating func addMapping(for accepted: ValidatedMutation, _ record: MutationRecord) {
        let mutation = accepted.mutation
        guard accepted.type.idSpace.isServerGiven, let created = mutation.created, let name = mutation.entity.client
        else {
            return
        }
        var mapping = IDMapping(entityType: created.entityType, client: name, mutationID: mutation.id)
        if record.status.isFinal, let serverID = record.entity.serverID {
            mapping.serverID = serverID
            mapping.status = .resolved
            createdIDs[accepted.index] = serverID
        }
        let known = snapshot.mappings.isEmpty ? nil : snapshot.mapping(created)
        plan.mappings.append(
            NewMapping(mapping: mapping, createdAt: mutation.createdAt, replacesAbandoned: known != nil)
        )
    }

    /// Records the local ids that the mutation uses but does not create.
    private mutating func recordLocalIDs(of accepted: ValidatedMutation, _ record: MutationRecord) {
        let localIDs = snapshot.localIDs.named
        guard !localIDs.isEmpty else { return }
        for (clientID, reference) in accepted.references {
            guard let id = localIDs[clientID] else { continue }
            if let serverID = snapshot.tentativeIDs[clientID] { plan.confirmedIDs[id] = serverID }
            // a local id whose create waits already has a row
            if case .mutation = reference.target { continue }
            if !record.status.isFinal, !snapshot.pinnedIDs.contains(clientID) { plan.pinnedIDs.insert(id) }
        }
    }
}

extension PushPlanner {
    public struct Context: Sendable {
        public var organization: Organization
        /// The registered entity types, by name.
        public var types: [ByteExactString: EntityType]
        /// The owner of the lane, from the verified token.
        public var user: UUID
        /// Whether the push is applied completely or not at all (`Prefer: handling=strict`).
        public var isStrict: Bool
        /// The time of the transaction.
        public var now: Timestamp
        /// Generates a server id, in production a UUIDv7.
        public var makeID: @Sendable () -> UUID
        /// The maximum number of devices of a user.
        public var deviceLimit = 1_000
        /// Whether the push is committed together with other pushes. If so, the push must not need much work.
        public var isBatched = false
        /// The maximum total size, in bytes, of the documents that the push reads.
        public var documentBytes = WorkBounds.pushDocuments
        /// The maximum total size, in bytes, of the documents into which the push merges patches. A document counts
        /// once for each patch.
        public var mergedBytes = Int.max
        /// Whether the push also reads the documents of forwarded entities.
        public var readsForwarded = false

        public init(
            organization: Organization,
            types: [ByteExactString: EntityType],
            user: UUID,
            isStrict: Bool,
            now: Timestamp,
            makeID: @escaping @Sendable () -> UUID
        ) {
            self.organization = organization
            self.types = types
            self.user = user
            self.isStrict = isStrict
            self.now = now
            self.makeID = makeID
        }

        /// The entity type of a mutation; nil if the type is unknown and the organization requires declared types.
        ///
        /// In other organizations, an unknown type is created at its first use.
        func type(_ name: String) -> EntityType? {
            if let type = types[name] { return type }
            return organization.settings.entityTypes == .open
                ? EntityType(firstUseOf: name, hasUpstream: organization.upstream != nil) : nil
        }
    }
}
