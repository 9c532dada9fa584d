public import Foundation
import JSONText

/// Decides how a mutation that a person settled runs again: retried, or as the client's way in a conflict. Pure.
public struct RestartPlanner {
    /// What the store knows about the mutation's dependencies.
    public struct Knowledge: Sendable {
        /// Mappings of the user by client id, of ``SettledContent/identifiers``; also where ids of the mutation's device
        /// lead, by what stands for them.
        public var mappings: [UUID: [IDMapping]]
        /// Which of the mutations that it depends on do not satisfy their dependants yet.
        public var unmet: Set<UUID>

        /// Creates the value.
        public init(mappings: [UUID: [IDMapping]] = [:], unmet: Set<UUID> = []) {
            self.mappings = mappings
            self.unmet = unmet
        }
    }

    private let subject: SettleSubject
    private let edit: ContentEdit
    private let content: SettledContent
    private let knowledge: Knowledge
    /// What is to be written.
    public private(set) var restart: MutationRestart

    // MARK: - The two ways

    /// A retry (product rule 6): a new revision exactly when the last answer was definitive or the content is edited. An
    /// answer which says that a create took effect, but not as what, is not definitive.
    ///
    /// - Throws: `status_transition_must_be_valid`; `validation_failed` for content that does not fit.
    public static func retry(
        _ subject: SettleSubject,
        _ request: RetryRequest,
        _ knowledge: Knowledge
    ) throws(Problem) -> RestartPlanner {
        try subject.require(MutationStatus.forAPerson, to: "retry")
        if subject.mayHaveTakenEffect, !request.edit.isEmpty, !request.isForced {
            let last = subject.hasTakenEffect ? "took effect upstream" : "is of unknown outcome"
            throw Problem(
                .statusTransitionMustBeValid,
                "the last attempt \(last), so an edited retry could take effect beside it;"
                    + " retry it unchanged, or accept that with \"force\": true"
            )
        }
        return try RestartPlanner(
            subject,
            request.edit,
            knowledge,
            raisesRevision: !subject.mayHaveTakenEffect || !request.edit.isEmpty
        )
    }

    /// The client's way in a conflict (product rule 12): a new revision in any case.
    ///
    /// - Parameter idPointer: where an upstream's answer names the entity (RFC 6901).
    /// - Throws: `status_transition_must_be_valid`, also where only a retry or a discard makes sense;
    ///   `validation_failed` for content that does not fit.
    public static func clientWins(
        _ subject: SettleSubject,
        _ edit: ContentEdit,
        _ knowledge: Knowledge,
        idPointer: String
    ) throws(Problem) -> RestartPlanner {
        try subject.require([.conflict], to: "resolve")
        var planner = try RestartPlanner(subject, edit, knowledge, raisesRevision: true)
        planner.restart.resolution = .clientWins
        if subject.type.isForwarded {
            try planner.send(idPointer)
        } else if subject.record.operation == .create {
            throw Self.staysManual
        }
        return planner
    }

    private static var staysManual: Problem {
        Problem(
            .statusTransitionMustBeValid,
            "the client cannot win this conflict: nothing could be sent that would surely write over the same entity;"
                + " retry, discard, or let the server win"
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
                "what is stored of the payload cannot be opened: send another one with the retry, or discard it"
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
        // what was decided stands; also noted of what comes from before types were
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

    /// UUIDs that have to be resolved first, if they are client ids: what endpoint and payload name, and the entity that
    /// is changed. What a create makes it does not wait for.
    private var waitedFor: [UUID] {
        let created = subject.record.created?.clientID
        return content.identifiers.filter { $0 != created && isMeant($0) }
    }

    /// Whether a UUID can be a client id. In content that stays as it is that was decided before: what was just data then
    /// is data now, also where somebody has created it since.
    private func isMeant(_ id: UUID) -> Bool {
        isOwn(id) || subject.references.ids.contains(id)
            || edit.endpoint?.uuids.contains(id) == true || edit.payload?.uuids.contains(id) == true
            || content.localReferences.contains { $0.clientID == id }
    }

    private func isOwn(_ id: UUID) -> Bool { id == subject.record.entity.clientID }

    /// The mappings that a client id can mean: of the type under which it was created when it was first named, where that
    /// is known.
    private func mappings(of id: UUID) -> [IDMapping] {
        let type = isOwn(id) ? subject.record.entity.type : subject.references.types[id]
        return (knowledge.mappings[id] ?? []).filter { type == nil || $0.entityType == type }
    }

    private func isReference(_ id: UUID) -> Bool {
        isMeant(id) && !mappings(of: id).isEmpty && id != subject.record.created?.clientID
    }

    /// The create that a client id waits for; nil where it is resolved, or just data.
    private func create(of id: UUID) throws(Problem) -> UUID? {
        let known = mappings(of: id)
        guard !known.isEmpty || subject.references.types[id] != nil else {
            if let problem = unknown(id) { throw problem }
            return nil
        }
        let usable = known.filter { !$0.isAbandoned }
        guard let mapping = usable.first else {
            // a write of an entity whose permanent id is known needs no mapping
            if isOwn(id), subject.record.entity.serverID != nil { return nil }
            let name = content.localReferences.first { $0.clientID == id }?.id.words ?? "client id \(id.lowercased)"
            let detail = "\(name) stands for nothing: the mutation that created it was discarded"
            throw Problem(.validationFailed, pointer: pointer(to: id), rule: Rule.dependencies, detail)
        }
        guard Set(usable.map(\.entityType)).count == 1 else {
            throw .ambiguous("client id \(id.lowercased)", usable.map(\.entityType), at: pointer(to: id))
        }
        return mapping.status == .resolved ? nil : mapping.mutationID
    }

    /// What is wrong with an id that nobody knows: a UUID is just data, but not a device's own id.
    private func unknown(_ id: UUID) -> Problem? {
        let entity = subject.record.entity
        if isOwn(id), entity.serverID != nil || entity.localID == nil { return nil }
        let place = content.localReferences.first { $0.clientID == id }
        guard let name = place?.id ?? (isOwn(id) ? entity.localID : nil) else { return nil }
        let detail = "nobody created \(name.words) on this device, and no pull gave it"
        return Problem(.validationFailed, pointer: pointer(to: id), rule: Rule.entityReference, detail)
    }

    /// Where in the request an id stands; empty for content that was there before.
    private func pointer(to id: UUID) -> String {
        if edit.payload != nil, let place = content.localReferences.first(where: { $0.clientID == id })?.place {
            return "/payload" + place.pointer
        }
        if edit.payload?.uuids.contains(id) == true { return "/payload" }
        return edit.endpoint?.uuids.contains(id) == true ? "/endpoint" : ""
    }

    /// Mutations that it waits for now and did not before: an edit, or another create of a client id, brought them in.
    public var addedDependencies: [UUID] {
        restart.dependsOn.filter { !subject.record.dependsOn.contains($0) }
    }

    /// Checks that nothing that it would wait for waits for it.
    ///
    /// - Throws: `validation_failed`.
    public func checkCycles(_ graph: DependencyGraph) throws(Problem) {
        let dependants = Set(graph.all(of: [subject.record.id]).map(\.id))
        let circular = addedDependencies.first { dependants.contains($0) || $0 == subject.record.id }
        guard let circular else { return }
        let detail = "would wait for mutation \(circular.lowercased), which waits for this one"
        let pointer = edit.payload != nil ? "/payload" : edit.endpoint != nil ? "/endpoint" : ""
        throw Problem(.validationFailed, pointer: pointer, rule: Rule.dependencies, detail)
    }

    // MARK: - What is sent

    private mutating func send(_ idPointer: String) throws(Problem) {
        let current = ConflictState(error: subject.record.error)
        let serverID = ConflictState.entity(of: subject.record, current, idPointer)
        // what is sent instead goes out as it is: it cannot wait for ids
        let isWaiting = content.payload?.uuids.contains(where: isWaitedFor) ?? false
        let sent = ClientWins.plan(
            operation: subject.record.operation,
            idSpace: subject.type.idSpace,
            endpoint: content.endpoint.map { resolver.path($0, own: nil) } ?? "",
            payload: resolvedPayload,
            current: isWaiting ? nil : current?.toldDocument,
            serverID: content.endpoint?.uuids.contains(where: isWaitedFor) ?? false ? nil : serverID
        )
        guard let sent else { throw Self.staysManual }
        restart.sent = sent
        if subject.record.operation == .create { restart.serverID = serverID }
    }

    /// Whether a UUID is a client id that leads nowhere yet.
    private func isWaitedFor(_ id: UUID) -> Bool { isReference(id) && resolver.serverID(of: id) == nil }

    /// Of a client id whose server id is not known yet the client id stays, and is replaced before the request is sent.
    private var resolver: ReferenceResolver {
        let own = subject.record.entity
        let known = own.clientID.flatMap(mappedID) ?? own.serverID
        return ReferenceResolver(of: own.with(known)) { isMeant($0) ? mappedID($0) : nil }
    }

    private func mappedID(_ id: UUID) -> ServerID? { mappings(of: id).first { $0.status == .resolved }?.serverID }

    /// What stands for an id of the device goes in where the server id is not known yet: among the ids of a server's
    /// document the device's own could not be told from these.
    private var resolvedPayload: JSONValue? {
        guard let payload = content.payload else { return nil }
        let text = resolver.payload(payload, content.localReferences, unresolved: { .uuid($0.clientID) })
        return text.flatMap { try? JSONTree(parsing: $0, limits: .widest).root } ?? payload
    }
}
