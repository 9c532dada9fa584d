package import Foundation
import JSONText

/// Decides everything about one push: what is a repetition, what is refused, what is accepted, and for built-in types
/// what takes effect at once. Pure: it reads the snapshot and the entities, and answers with what is to be written.
package struct PushPlanner {
    /// What a plan needs to know besides the push.
    package struct Context: Sendable {
        /// The tenant and its settings.
        package var organization: Organization
        /// The entity types that are registered, by name.
        package var types: [String: EntityType]
        /// The user whose lane it is, from the verified token.
        package var user: UUID
        /// All or nothing (`Prefer: handling=strict`).
        package var isStrict: Bool
        /// The moment of the transaction.
        package var now: Timestamp
        /// Makes a server id; UUIDv7 in production.
        package var makeID: @Sendable () -> UUID
        /// Devices that a user may have.
        package var deviceLimit = 1_000

        /// Creates the value.
        package init(
            organization: Organization,
            types: [String: EntityType],
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

        /// The type of a mutation; an unknown one is made at its first use, unless the organization wants it declared.
        func type(_ name: String) -> EntityType? {
            if let type = types[name] { return type }
            return organization.settings.entityTypes == .open
                ? EntityType(firstUseOf: name, hasUpstream: organization.upstream != nil) : nil
        }
    }

    private let push: PushRequest
    private let snapshot: PushSnapshot
    private let context: Context
    private var entities: EntityTable
    private var plan = PushPlan()
    /// Records of this push's accepted entries, by index.
    private var records: [MutationRecord?]
    /// Server ids that this push's creates came by, by index.
    private var createdIDs: [ServerID?]

    /// Plans a push.
    ///
    /// - Parameter entities: the organization's entities as the pushes before this one left them; changed by the plan.
    /// - Throws: ``PushRefusal``; then `entities` is as it was.
    package static func plan(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        context: Context,
        entities: inout EntityTable
    ) throws(PushRefusal) -> PushPlan {
        if let after = push.afterSequence, after > snapshot.watermark {
            var problem = Problem(
                .sequenceGap,
                "after_sequence is \(after), but this device's mutations are known up to \(snapshot.watermark) only;"
                    + " send those after \(snapshot.watermark) first"
            )
            problem.expected = snapshot.watermark
            throw .problem(problem)
        }
        let judge = PushJudge(
            push,
            snapshot: snapshot,
            upstream: context.organization.upstream,
            types: context.type
        )
        if judge.needsProbe { throw .needsProbe }
        if context.isStrict, let problem = judge.strictProblem() {
            // it names all that is refused, so all has to be looked up
            throw snapshot.isComplete ? .problem(problem) : .needsProbe
        }
        let isOneTooMany = !snapshot.isDeviceKnown && snapshot.deviceCount >= context.deviceLimit
        if isOneTooMany, judge.newCount > 0 {
            // what was taken for new may be a repetition, and those are answered
            throw snapshot.isComplete ? .problem(.oneDeviceTooMany(limit: context.deviceLimit)) : .needsProbe
        }
        let allowance: (bucket: TokenBucket, standing: QuotaStanding)?
        do throws(PushRefusal) {
            allowance = try MutationAllowance.spend(judge.newCount, snapshot.allowance, context)
        } catch {
            // what was taken for new may be a repetition, and those are free
            throw snapshot.isComplete ? error : .needsProbe
        }
        var planner = PushPlanner(push, snapshot, context, entities)
        // one owner at a time: a table that two hold is copied at its next write
        entities = EntityTable()
        for accepted in judge.accepted { planner.run(accepted) }
        entities = planner.entities
        var plan = planner.finish(judge)
        plan.allowance = judge.newCount > 0 ? allowance?.bucket : nil
        plan.standing = allowance?.standing
        // repetitions are answered, and leave nothing behind
        if isOneTooMany { plan.acceptedSequence = snapshot.watermark }
        return plan
    }

    private init(_ push: PushRequest, _ snapshot: PushSnapshot, _ context: Context, _ entities: EntityTable) {
        self.push = push
        self.snapshot = snapshot
        self.context = context
        self.entities = entities
        records = Array(repeating: nil, count: push.entries.count)
        createdIDs = Array(repeating: nil, count: push.entries.count)
        plan.lane = snapshot.lane
        plan.lane.change()
    }

    // MARK: - One accepted mutation

    private mutating func run(_ accepted: PushJudge.Accepted) {
        let mutation = accepted.mutation
        let unmet = unmetDependencies(of: accepted)
        var outcome = Outcome(status: unmet.isEmpty ? .pending : .blocked, serverID: serverID(of: accepted))
        // what is forwarded is sent once this is committed, and whatever comes behind it waits for its turn
        if unmet.isEmpty, !accepted.type.isForwarded, plan.lane.isFree {
            apply(accepted, to: &outcome)
        }
        let record = MutationRecord(
            id: mutation.id,
            idempotencyKey: mutation.idempotencyKey,
            deviceID: push.deviceID,
            sequenceNumber: mutation.sequenceNumber,
            position: plan.lane.nextPosition,
            operation: mutation.operation,
            entityType: mutation.entityType,
            status: outcome.status,
            localID: mutation.localID,
            localNumber: mutation.localNumber,
            serverID: outcome.serverID,
            version: outcome.version,
            dependsOn: unmet,
            resolution: outcome.resolution,
            responseStatus: outcome.responseStatus,
            error: outcome.error,
            lastError: outcome.lastError,
            fingerprint: mutation.fingerprint(noting: snapshot.localIDs.references(of: accepted.index)),
            acceptedAt: context.now,
            syncedAt: outcome.status.isFinal ? context.now : nil
        )
        plan.lane.append(record, halts: context.organization.settings.halts(at: record.status))
        addMapping(for: accepted, record)
        noteLocalIDs(of: accepted, record)
        if !accepted.type.isInUse, !plan.typesToRegister.contains(where: { $0.name == accepted.type.name }) {
            plan.typesToRegister.append(accepted.type)
        }
        records[accepted.index] = record
        let references = record.status.isFinal ? [] : accepted.references.keys.sorted()
        plan.mutations.append(
            NewMutation(
                mutation: mutation,
                record: record,
                priority: mutation.priority ?? accepted.type.defaultPriority,
                conflictResolution: strategy(of: mutation),
                references: references,
                referenceTypes: references.map { accepted.referenceTypes[$0] ?? mutation.entityType }
            )
        )
    }

    /// What comes of a mutation in this transaction.
    private struct Outcome {
        var status: MutationStatus
        var serverID: ServerID?
        var version: Int64?
        var resolution: ConflictResolution?
        var responseStatus: Int16?
        var error: [UInt8]?
        var lastError: String?
    }

    private func strategy(of mutation: Mutation) -> ConflictResolution {
        mutation.conflictResolution ?? context.organization.settings.conflictResolution
    }

    /// Mutations that must succeed first and have not.
    private func unmetDependencies(of accepted: PushJudge.Accepted) -> [UUID] {
        var unmet = accepted.stored
        for entry in accepted.entries {
            guard let record = records[entry], !record.satisfiesDependants, !unmet.contains(record.id) else { continue }
            unmet.append(record.id)
        }
        return unmet
    }

    /// The entity's server id, when it is known before the mutation runs.
    private func serverID(of accepted: PushJudge.Accepted) -> ServerID? {
        let mutation = accepted.mutation
        if let id = mutation.serverID { return id }
        guard mutation.operation != .create, let localID = mutation.localID else { return nil }
        return resolve(localID, accepted)
    }

    /// What stands in a client id's place by now.
    private func resolve(_ clientID: UUID, _ accepted: PushJudge.Accepted) -> ServerID? {
        switch accepted.references[clientID] {
        case .server(let id): id
        case .entry(let entry): createdIDs[entry]
        case .mutation, nil: nil
        }
    }

    private mutating func apply(_ accepted: PushJudge.Accepted, to outcome: inout Outcome) {
        let mutation = accepted.mutation
        let id = outcome.serverID ?? ServerID(context.makeID())
        let write = BuiltInStore.Write(
            operation: mutation.operation,
            id: id,
            clientID: mutation.localNumber == nil ? mutation.localID : nil,
            payload: payload(of: accepted, ownID: id),
            baseVersion: mutation.baseVersion,
            writer: Writer(user: context.user, device: push.deviceID),
            idSpace: accepted.type.idSpace,
            visibility: accepted.type.visibility,
            strategy: strategy(of: mutation)
        )
        let result = BuiltInStore.apply(write, type: mutation.entityType, index: accepted.index, to: &entities)
        outcome.status = result.status
        outcome.serverID = result.serverID
        outcome.version = result.version
        outcome.resolution = result.resolution
        outcome.responseStatus = result.responseStatus
        outcome.error = result.error
        outcome.lastError = result.lastError
    }

    /// The payload with server ids in the place of client ids.
    private func payload(of accepted: PushJudge.Accepted, ownID: ServerID) -> [UInt8] {
        guard accepted.mutation.operation != .delete, let payload = accepted.mutation.payload else { return [] }
        func permanent(_ clientID: UUID) -> ServerID? {
            clientID == accepted.mutation.localID ? ownID : resolve(clientID, accepted)
        }
        let edits = snapshot.localIDs.references(of: accepted.index).compactMap { reference in
            permanent(reference.clientID).map(reference.edit)
        }
        let rewritten = payload.rewritten(edits) { permanent($0)?.replacement }
        return rewritten ?? Array(payload.raw)
    }

    private mutating func addMapping(for accepted: PushJudge.Accepted, _ record: MutationRecord) {
        let mutation = accepted.mutation
        guard mutation.operation == .create, accepted.type.idSpace.isServerGiven, let clientID = mutation.localID else {
            return
        }
        var mapping = IDMapping(entityType: mutation.entityType, clientID: clientID, mutationID: mutation.id)
        mapping.localNumber = mutation.localNumber
        if record.status.isFinal, let serverID = record.serverID {
            mapping.serverID = serverID
            mapping.status = .resolved
            createdIDs[accepted.index] = serverID
        }
        let known = snapshot.mappings.isEmpty ? nil : snapshot.mapping(clientID, type: mutation.entityType)
        plan.mappings.append(
            NewMapping(mapping: mapping, createdAt: mutation.createdAt, replacesAbandoned: known != nil)
        )
    }

    /// Ids of the device that the mutation uses and did not make.
    private mutating func noteLocalIDs(of accepted: PushJudge.Accepted, _ record: MutationRecord) {
        let localIDs = snapshot.localIDs.named
        guard !localIDs.isEmpty else { return }
        for (clientID, target) in accepted.references {
            guard let id = localIDs[clientID] else { continue }
            if let serverID = snapshot.tentativeIDs[clientID] { plan.confirmedIDs[id] = serverID }
            // one whose create waits can be found already
            if case .mutation = target { continue }
            if !record.status.isFinal, !snapshot.pinnedIDs.contains(clientID) { plan.pinnedIDs.insert(id) }
        }
    }

    // MARK: - The whole

    private mutating func finish(_ judge: PushJudge) -> PushPlan {
        plan.rejections = Array(judge.rejections.values)
        // a lane that had something to run is looked at anyway, or waits for its back-off
        if snapshot.lane.queuedCount == 0 { plan.lane.wake(now: context.now) }
        plan.acceptedSequence = push.entries.reduce(snapshot.watermark) { max($0, $1.sequenceNumber ?? 0) }
        plan.verdicts = push.entries.map { entry in
            if let record = records[entry.index] { return .accepted(record) }
            guard case .replayed(let record)? = judge.verdicts[entry.index] else {
                return judge.verdicts[entry.index] ?? .rejected(Problem(.internalError, "the entry was not judged"))
            }
            // a repetition within the push shows what its first came to
            return .replayed(recordsByKey[record.idempotencyKey] ?? record)
        }
        plan.touchedMappings = touchedMappings()
        plan.warnings = warnings()
        // what is just data in a mutation
        let strays = judge.accepted.lazy.reversed().flatMap { accepted in
            accepted.mutation.references.lazy.reversed()
                .filter { accepted.references[$0] == nil && $0 != accepted.mutation.localID }
        }
        plan.strayIDs = snapshot.strayIDs.adding(strays)
        return plan
    }

    /// What a create is told whose client id was named before it was one; a repetition is told the same.
    private func warnings() -> [Int: PushWarning] {
        guard !snapshot.strayIDs.isEmpty else { return [:] }
        var warnings: [Int: PushWarning] = [:]
        for (entry, verdict) in zip(push.entries, plan.verdicts) where verdict.record != nil {
            guard let mutation = entry.mutation, mutation.operation == .create, let localID = mutation.localID,
                snapshot.strayIDs.contains(localID)
            else { continue }
            warnings[entry.index] = .clientIDWasData
        }
        return warnings
    }

    /// Made when it is first asked for, once every accepted entry has run: few pushes repeat anything.
    private lazy var recordsByKey: [UUID: MutationRecord] =
        Dictionary(records.compactMap { $0.map { ($0.idempotencyKey, $0) } }) { first, _ in first }

    /// Every resolved mapping of this user that the batch touches, in the order in which it does.
    private func touchedMappings() -> [IDMapping] {
        guard !snapshot.mappings.isEmpty || !plan.mappings.isEmpty else { return [] }
        let created = Dictionary(grouping: plan.mappings.lazy.map(\.mapping), by: \.clientID)
        var seen: Set<TouchedMappings.Key> = []
        var touched: [IDMapping] = []
        func touch(_ id: UUID, of type: String? = nil) {
            func add(_ mapping: IDMapping) {
                guard mapping.status == .resolved, type == nil || mapping.entityType == type,
                    seen.insert(.init(clientID: id, entityType: mapping.entityType)).inserted
                else { return }
                touched.append(mapping)
            }
            snapshot.mappings[id]?.forEach(add)
            created[id]?.forEach(add)
        }
        for mutation in push.entries.compactMap(\.mutation) {
            if let localID = mutation.localID { touch(localID, of: mutation.entityType) }
            for id in mutation.references { touch(id) }
            for id in mutation.dependencyIDs { touch(id) }
        }
        for entry in push.entries { snapshot.localIDs.references(of: entry.index).forEach { touch($0.clientID) } }
        return touched
    }
}

extension PushJudge {
    /// What refuses the whole push when it is to be all or nothing; nil when every entry is valid.
    func strictProblem() -> Problem? {
        let problems = verdicts.enumerated().compactMap { index, verdict -> [ProblemDetail]? in
            switch verdict {
            case nil, .accepted, .replayed: nil
            case .rejected(let problem):
                problem.errors.isEmpty
                    ? [
                        ProblemDetail(
                            pointer: "/mutations/\(index)",
                            rule: problem.code.rawValue,
                            detail: problem.detail
                        )
                    ]
                    : problem.errors
            case .rejectedBefore:
                [
                    ProblemDetail(
                        pointer: "/mutations/\(index)",
                        rule: "rejected_before",
                        detail: "this entry was rejected before; send it corrected with a new sequence number"
                    )
                ]
            }
        }
        guard !problems.isEmpty else { return nil }
        return Problem(
            .validationFailed,
            "\(problems.count) of the mutations cannot be taken, and handling=strict takes all or none",
            errors: problems.flatMap { $0 }
        )
    }
}
