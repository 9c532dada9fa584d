public import FoundationEssentials
import JSONText

/// Decides how a mutation runs again after a person settled it. This type does no I/O.
///
/// The mutation runs as a retry or, after a conflict, as `client_wins`.
public struct RestartPlanner {
    /// Data about the mutation's dependencies, which the store reads.
    public struct Knowledge: Sendable {
        /// The user's mappings of ``SettledContent/identifiers``, by client id.
        ///
        /// The mappings of local ids (entities' numbers on one device) are included. Their keys are the UUIDs that
        /// represent the local ids.
        public var mappings: [UUID: [IDMapping]]
        /// The dependencies that are not satisfied yet (product rule 3).
        public var unmet: Set<UUID>
        /// Whether the entity was written after the upstream returned the conflicting state.
        public var isOvertaken: Bool

        public init(mappings: [UUID: [IDMapping]] = [:], unmet: Set<UUID> = [], isOvertaken: Bool = false) {
            self.mappings = mappings
            self.unmet = unmet
            self.isOvertaken = isOvertaken
        }
    }

    private let subject: SettleSubject
    private let edit: ContentEdit
    private let content: SettledContent
    private let knowledge: Knowledge
    /// The restart to write.
    public private(set) var restart: MutationRestart

    // MARK: - The two ways

    /// Plans a retry (product rule 6).
    ///
    /// The retry starts a new revision (a new idempotency key for the upstream) if the last answer was definitive or
    /// the content is edited, and only then. A success is not definitive if its answer does not identify the created
    /// entity.
    ///
    /// - Throws: `status_transition_must_be_valid`; `validation_failed` for invalid content.
    public static func retry(
        _ subject: SettleSubject,
        _ request: RetryRequest,
        _ knowledge: Knowledge
    ) throws(Problem) -> RestartPlanner {
        try subject.require(MutationStatus.forAPerson, to: "retry")
        if subject.mayHaveTakenEffect, !request.edit.isEmpty, !request.isForced {
            let last =
                subject.hasTakenEffect
                ? "the last attempt took effect at the upstream" : "the outcome of the last attempt is unknown"
            throw Problem(
                .statusTransitionMustBeValid,
                "\(last), so an edited retry could take effect in addition to it;"
                    + " retry it unchanged, or accept this with \"force\": true"
            )
        }
        return try RestartPlanner(
            subject,
            request.edit,
            knowledge,
            raisesRevision: !subject.mayHaveTakenEffect || !request.edit.isEmpty
        )
    }

    /// Whether a retry only ends the mutation's back-off (product rule 11).
    ///
    /// Such a retry starts no new revision, and changes neither the number of attempts nor the idempotency key. Only an
    /// operator may send a request earlier than the upstream allows.
    ///
    /// - Throws: `status_transition_must_be_valid` for an edit, because the edit could take effect in addition to the
    ///   last attempt.
    public static func endsBackOff(
        _ subject: SettleSubject,
        _ request: RetryRequest,
        now: Timestamp
    ) throws(Problem) -> Bool {
        let record = subject.record
        guard record.status == .pending, let due = record.nextRetryAt, due > now else { return false }
        guard request.edit.isEmpty else {
            throw Problem(
                .statusTransitionMustBeValid,
                "the mutation waits for its next attempt, so it can only be retried unchanged; edit it once it is failed"
            )
        }
        return true
    }

    /// Plans the resolution of a conflict by `client_wins`, which always starts a new revision (product rule 12).
    ///
    /// - Throws: `status_transition_must_be_valid` if `client_wins` is not possible for the mutation, even if a person
    ///   can retry or discard the mutation; `validation_failed` for invalid content.
    public static func clientWins(
        _ subject: SettleSubject,
        _ edit: ContentEdit,
        _ knowledge: Knowledge
    ) throws(Problem) -> RestartPlanner {
        try subject.require([.conflict], to: "resolve")
        var planner = try RestartPlanner(subject, edit, knowledge, raisesRevision: true)
        planner.restart.resolution = .clientWins
        if subject.type.isForwarded {
            try planner.send()
        } else if subject.record.operation == .create {
            // a deleted entity can be restored without loss, because the payload is the whole document
            guard ConflictState(error: subject.record.error)?.isDeleted == true else { throw Self.staysManual }
        } else if subject.record.operation == .update, edit.payload == nil,
            ConflictState(error: subject.record.error)?.isDeleted == true
        {
            throw Problem(
                .validationFailed,
                pointer: "/payload",
                rule: Rule.required,
                "another writer deleted the entity, and a patch would only restore the changed members;"
                    + " send the whole document as the payload, discard the mutation, or use server_wins"
            )
        }
        return planner
    }

    private static var staysManual: Problem {
        Problem(
            .statusTransitionMustBeValid,
            "client_wins is not possible: no request would reliably overwrite the same entity;"
                + " retry, discard, or use server_wins"
        )
    }

    // MARK: - Content and dependencies

    private init(
        _ subject: SettleSubject,
        _ edit: ContentEdit,
        _ knowledge: Knowledge,
        raisesRevision: Bool
    ) throws(Problem) {
        self.subject = subject
        self.edit = edit
        self.knowledge = knowledge
        content = SettledContent(subject, edit)
        restart = MutationRestart(
            record: subject.record,
            revision: subject.record.revision + (raisesRevision ? 1 : 0),
            isOutcomeUnknown: subject.mayHaveTakenEffect && !raisesRevision
        )
        if edit.payload == nil, subject.record.unreadable.contains("payload") {
            let detail =
                "the stored payload cannot be decrypted: send another one with the retry, or discard the mutation"
            throw Problem(.validationFailed, pointer: "/payload", rule: Rule.payload, detail)
        }
        do throws(ContentRules.Violation) {
            try ContentRules.checkPayload(content.payload, of: subject.record.operation, in: subject.type)
        } catch {
            throw Problem(.validationFailed, pointer: "/payload" + error.pointer, rule: error.rule, error.detail)
        }
        restart.endpoint = edit.endpoint
        restart.payload = edit.payload.map { Array($0.raw) }
        restart.dependsOn = subject.record.dependsOn.filter(knowledge.unmet.contains)
        for id in waitedFor {
            guard let create = try create(of: id), !restart.dependsOn.contains(create) else { continue }
            restart.dependsOn.append(create)
        }
        let references = content.identifiers.filter(isReference)
        // unchanged content keeps its stored references; if they were stored without entity types, the types are added
        // now
        if !edit.isEmpty || (subject.references.types.isEmpty && !subject.references.ids.isEmpty) {
            restart.references = references.map { id in
                ClientReference(
                    clientID: id,
                    entityType: mappings(of: id).first?.entityType ?? subject.record.entity.type
                )
            }
        }
        restart.localIDs = content.localIDs.filter { isReference($0.clientID(on: subject.record.deviceID)) }
    }

    /// The UUIDs that must be resolved before the mutation runs, if they are client ids.
    ///
    /// These are the UUIDs in the endpoint and the payload, and the client id of the changed entity. The client id of
    /// an entity that this mutation creates is not included.
    private var waitedFor: [UUID] {
        let created = subject.record.created?.clientID
        return content.identifiers.filter { $0 != created && isMeant($0) }
    }

    /// Whether a UUID can be a client id.
    ///
    /// For unchanged content, this was decided when the mutation was accepted. If a UUID was only data at that time, it
    /// remains data, even if a create has used it as a client id since then.
    private func isMeant(_ id: UUID) -> Bool {
        isOwn(id) || subject.references.ids.contains(id)
            || edit.endpoint?.uuids.contains(id) == true || edit.payload?.uuids.contains(id) == true
            || content.localReferences.contains { $0.clientID == id }
    }

    private func isOwn(_ id: UUID) -> Bool { id == subject.record.entity.clientID }

    /// The mappings that a client id can refer to.
    ///
    /// If the content's references contain the client id's entity type, only mappings of this type are included.
    private func mappings(of id: UUID) -> [IDMapping] {
        let type = isOwn(id) ? subject.record.entity.type : subject.references.types[id]
        return (knowledge.mappings[id] ?? []).filter { type == nil || $0.entityType == type }
    }

    private func isReference(_ id: UUID) -> Bool {
        isMeant(id) && !mappings(of: id).isEmpty && id != subject.record.created?.clientID
    }

    /// The create that must resolve a client id; nil if the client id is resolved, or if the UUID is only data.
    private func create(of id: UUID) throws(Problem) -> UUID? {
        let known = mappings(of: id)
        guard !known.isEmpty || subject.references.types[id] != nil else {
            if let problem = unknown(id) { throw problem }
            return nil
        }
        let usable = known.filter { !$0.isAbandoned }
        guard let mapping = usable.first else {
            // if the permanent id of the entity is known, the mutation needs no mapping of the entity's client id
            if isOwn(id), subject.record.entity.serverID != nil { return nil }
            let name = content.localReferences.first { $0.clientID == id }?.id.words ?? "client id \(id.lowercased)"
            let detail = "\(name) does not exist: the mutation that created it was discarded"
            throw Problem(.validationFailed, pointer: pointer(to: id), rule: Rule.dependencies, detail)
        }
        guard Set<ByteExactString>(usable.map(\.entityType)).count == 1 else {
            throw .ambiguous("client id \(id.lowercased)", usable.map(\.entityType), at: pointer(to: id))
        }
        return mapping.status == .resolved ? nil : mapping.mutationID
    }

    /// The problem of an id without a mapping; nil if the id is permitted.
    ///
    /// An unknown UUID is permitted, because it is only data. A local id must be known.
    private func unknown(_ id: UUID) -> Problem? {
        let entity = subject.record.entity
        if isOwn(id), entity.serverID != nil || entity.localID == nil { return nil }
        let place = content.localReferences.first { $0.clientID == id }
        guard let name = place?.id ?? (isOwn(id) ? entity.localID : nil) else { return nil }
        let detail = "unknown \(name.words): this device neither created it nor received it in a pull"
        return Problem(.validationFailed, pointer: pointer(to: id), rule: Rule.entityReference, detail)
    }

    /// The JSON Pointer to the id in the request; empty for unchanged content.
    private func pointer(to id: UUID) -> String {
        if edit.payload != nil, let place = content.localReferences.first(where: { $0.clientID == id })?.place {
            return "/payload" + place.pointer
        }
        if edit.payload?.uuids.contains(id) == true { return "/payload" }
        return edit.endpoint?.uuids.contains(id) == true ? "/endpoint" : ""
    }

    /// The dependencies that are new because of an edit, or because another create now uses the client id.
    public var addedDependencies: [UUID] {
        restart.dependsOn.filter { !subject.record.dependsOn.contains($0) }
    }

    /// Checks that no new dependency waits for this mutation, directly or indirectly.
    ///
    /// - Throws: `validation_failed`.
    public func checkCycles(_ graph: DependencyGraph) throws(Problem) {
        let dependants = Set(graph.all(of: [subject.record.id]).map(\.id))
        let circular = addedDependencies.first { dependants.contains($0) || $0 == subject.record.id }
        guard let circular else { return }
        let detail = "the mutation would wait for mutation \(circular.lowercased), which waits for it"
        let pointer = edit.payload != nil ? "/payload" : edit.endpoint != nil ? "/endpoint" : ""
        throw Problem(.validationFailed, pointer: pointer, rule: Rule.dependencies, detail)
    }

    // MARK: - The request

    private mutating func send() throws(Problem) {
        let current = ConflictState(error: subject.record.error)
        let serverID = ConflictState.entity(of: subject.record, current)
        // client ids in a stored request are not replaced later. If the payload contains an unresolved client id,
        // `current` is nil, so that the stored request does not contain the payload. If the endpoint contains an
        // unresolved client id, `serverID` is nil, so that no request with this endpoint is stored.
        let isWaiting = content.payload?.uuids.contains(where: isWaitedFor) ?? false
        let sent = ClientWins.plan(
            operation: subject.record.operation,
            idSpace: subject.type.idSpace,
            endpoint: content.endpoint.map { resolver.path($0, own: nil) } ?? "",
            payload: resolvedPayload,
            // if other writers have changed the entity since the conflict, the conflict's document is outdated, and a
            // request with this document would undo the changes of the other writers
            current: isWaiting || knowledge.isOvertaken ? nil : current?.documentOfConflict,
            serverID: content.endpoint?.uuids.contains(where: isWaitedFor) ?? false ? nil : serverID
        )
        guard let sent else { throw Self.staysManual }
        restart.sent = sent
        if subject.record.operation == .create { restart.serverID = serverID }
    }

    /// Whether a UUID is an unresolved client id.
    private func isWaitedFor(_ id: UUID) -> Bool { isReference(id) && resolver.serverID(of: id) == nil }

    /// A resolver of client ids. An unresolved client id stays in the content.
    private var resolver: ReferenceResolver {
        let own = subject.record.entity
        let known = own.clientID.flatMap(mappedID) ?? own.serverID
        return ReferenceResolver(of: own.with(known)) { isMeant($0) ? mappedID($0) : nil }
    }

    private func mappedID(_ id: UUID) -> ServerID? { mappings(of: id).first { $0.status == .resolved }?.serverID }

    /// The payload with server ids. An unresolved local id of the device is replaced by the UUID that represents it.
    ///
    /// The local id must not remain in the payload, because it could be mistaken for a server id.
    private var resolvedPayload: JSONValue? {
        guard let payload = content.payload else { return nil }
        let text = resolver.payload(payload, content.localReferences, unresolved: { .uuid($0.clientID) })
        return text.flatMap { try? JSONTree(parsing: $0, limits: .widest).root } ?? payload
    }
}

/// A mutation to run again.
public struct MutationRestart: Sendable {
    /// The mutation before the change.
    public let record: MutationRecord
    /// The mutations that must succeed before this mutation runs; empty if the mutation waits only for its turn in the
    /// lane.
    public var dependsOn: [UUID] = []
    /// The revision, incremented if the upstream must treat the mutation as a new request (product rule 6).
    public var revision: Int32
    /// Whether the last request of this revision may have taken effect.
    public var isOutcomeUnknown: Bool
    /// A new endpoint; nil to leave the endpoint unchanged.
    public var endpoint: Endpoint?
    /// A new payload, as JSON; nil to leave the payload unchanged.
    public var payload: [UInt8]?
    /// The user's client ids in the content; nil to leave the stored client ids unchanged.
    public var references: [ClientReference]?
    /// The local ids that are resolved when the mutation runs.
    public var localIDs: [LocalID] = []
    /// `client_wins` if a person chose this strategy; otherwise nil. If not nil, the conflict remains stored as the
    /// error.
    public var resolution: ConflictResolution?
    /// The request that is sent instead of the mutation's own request; nil to send the mutation's own request.
    public var sent: SentRequest?
    /// The server id of the entity that a create overwrites; nil to leave the server id unchanged.
    ///
    /// Because the id is stored, the upstream's answer need not contain it.
    public var serverID: ServerID?

    /// `pending`, or `blocked` while the mutation waits for other mutations.
    public var status: MutationStatus? { record.status.moved(to: dependsOn.isEmpty ? .pending : .blocked) }
}

/// A mutation whose dependencies change because other mutations are settled.
public struct MutationRelease: Sendable {
    /// The mutation before the change.
    public let node: DependencyNode
    /// The mutations for which this mutation still waits.
    public let dependsOn: [UUID]
    /// The problem that makes the mutation fail; nil if the mutation does not fail.
    public var problem: Problem?

    /// The new status. A blocked mutation without remaining dependencies becomes pending.
    public var status: MutationStatus? {
        guard node.status == .blocked || node.status == .pending else { return node.status }
        return node.status.moved(to: problem != nil ? .failed : dependsOn.isEmpty ? .pending : .blocked)
    }
}
