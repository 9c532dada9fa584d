import Foundation
import JSONText

/// Decides entry by entry, in running order, what is a repetition, what is refused and why, and what is accepted and
/// what it depends on (product rules 1, 3, 5, 9). Executes nothing.
struct PushJudge {
    /// One accepted entry.
    struct Accepted {
        let index: Int
        let mutation: Mutation
        let type: EntityType
        /// Mutations of the store that must succeed first.
        var stored: [UUID] = []
        /// Entries of this push that must succeed first.
        var entries: [Int] = []
        /// Where the client ids in endpoint and payload lead.
        private(set) var references: [UUID: Target] = [:]
        /// The types that they were created in.
        private(set) var referenceTypes: [UUID: String] = [:]

        /// Notes where a client id leads.
        mutating func refer(to id: UUID, of type: String, _ target: Target) {
            references[id] = target
            referenceTypes[id] = type
        }
    }

    /// What a client id leads to.
    enum Target {
        case server(ServerID)
        /// Not resolved before this entry of the push has run.
        case entry(Int)
        /// Not resolved before this mutation of the store has run.
        case mutation(UUID)
    }

    private let snapshot: PushSnapshot
    private let open: OpenMutations
    private let types: (String) -> EntityType?
    private let upstream: UpstreamSettings?
    private let deviceID: UUID

    /// By index, of all entries but the accepted ones.
    private(set) var verdicts: [PushVerdict?]
    private(set) var accepted: [Accepted] = []
    /// Refused entries to remember, by key.
    private(set) var rejections: [UUID: Rejection] = [:]
    /// Whether an entry is refused though not everything was looked up: what is known may be a repetition, may be what
    /// another entry depends on, and may have the id or client id that is refused. What replays a refusal rests on a key
    /// that was found.
    var needsProbe: Bool {
        !snapshot.isComplete
            && verdicts.contains { verdict in
                if case .rejected? = verdict { true } else { false }
            }
    }

    /// Entries that are judged here for the first time and leave a record, be it of a mutation or of a refusal.
    var newCount: Int { accepted.count + rejections.count }

    /// Creates of the push by client id: where they stand in running order, -1 for those that are not valid.
    private var creates: [UUID: [(type: String, rank: Int, index: Int)]] = [:]
    private var rankOfMutation: [UUID: Int] = [:]
    private var acceptedByKey: [UUID: (index: Int, mutation: Mutation)] = [:]
    private var acceptedByID: [UUID: Int] = [:]
    private var rejectedIDs: Set<UUID> = []
    private var createdBy: [ClientKey: Int] = [:]
    private var rejectedCreates: [UUID: Set<String>] = [:]
    private var lastByClientID: [ClientKey: Int] = [:]
    private var lastByServerID: [EntityKey: Int] = [:]

    /// A client id under a type.
    private struct ClientKey: Hashable {
        let id: UUID
        let type: String
    }

    /// - Parameter upstream: the organization's, which says what headers its mutations may carry.
    init(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        upstream: UpstreamSettings?,
        types: @escaping (String) -> EntityType?
    ) {
        self.snapshot = snapshot
        open = OpenMutations(snapshot.open)
        self.types = types
        self.upstream = upstream
        deviceID = push.deviceID
        verdicts = Array(repeating: nil, count: push.entries.count)
        accepted.reserveCapacity(push.entries.count)
        let order = RunningOrder(push.entries) { mutation in
            mutation.priority ?? types(mutation.entityType)?.defaultPriority ?? 0
        }
        for (rank, index) in order.order.enumerated() {
            guard let mutation = push.entries[index].mutation else { continue }
            if rankOfMutation[mutation.id] == nil { rankOfMutation[mutation.id] = rank }
            if mutation.operation == .create, let localID = mutation.localID {
                creates[localID, default: []].append((mutation.entityType, rank, index))
            }
        }
        // invalid entries first: what refers to them must find them refused
        for entry in push.entries where entry.refusal != nil { judgeInvalid(entry) }
        for (rank, index) in order.order.enumerated() {
            guard let mutation = push.entries[index].mutation else { continue }
            judge(mutation, index: index, rank: rank, isCyclic: order.cyclic.contains(index))
        }
    }

    // MARK: - Verdicts

    private mutating func judgeInvalid(_ entry: PushEntry) {
        guard let problem = entry.refusal else { return }
        // under limits that were wider it may have been taken, and then nothing is refused
        let repeated = entry.said.flatMap { said in
            snapshot.knownByKey[said.idempotencyKey] == nil ? nil : repetition(of: said, index: entry.index)
        }
        if case .replayed? = repeated {
            verdicts[entry.index] = repeated
            return
        }
        if let id = entry.id { rejectedIDs.insert(id) }
        if let create = entry.attemptedCreate {
            creates[create.clientID, default: []].append((create.entityType, -1, entry.index))
            rejectedCreates[create.clientID, default: []].insert(create.entityType)
        }
        guard let key = entry.idempotencyKey, let number = entry.sequenceNumber else {
            verdicts[entry.index] = .rejected(problem)
            return
        }
        if snapshot.knownByKey[key] != nil {
            verdicts[entry.index] = repeated ?? .rejected(.keyReused(index: entry.index))
        } else if let earlier = rejection(under: key, number) {
            verdicts[entry.index] = .rejectedBefore(earlier.error)
        } else if number <= snapshot.watermark {
            verdicts[entry.index] = .rejected(problem)
        } else {
            reject(problem, index: entry.index, id: entry.id, key: key, number: number)
        }
    }

    private mutating func judge(_ mutation: Mutation, index: Int, rank: Int, isCyclic: Bool) {
        if let verdict = repetition(of: mutation, index: index) {
            verdicts[index] = verdict
            if case .rejected = verdict { refuseDependants(of: mutation) }
            if case .rejectedBefore = verdict { refuseDependants(of: mutation) }
            return
        }
        var judged = Accepted(
            index: index,
            mutation: mutation,
            type: EntityType(firstUseOf: mutation.entityType, hasUpstream: false)
        )
        do throws(Problem) {
            if isCyclic {
                throw at(
                    index,
                    "/dependency_ids",
                    Rule.dependencies,
                    "these mutations depend on each other in a circle"
                )
            }
            judged = Accepted(index: index, mutation: mutation, type: try entityType(of: mutation, index: index))
            try judgeHeaders(of: mutation, index: index)
            try judgeIdentity(of: mutation, in: &judged)
            try judgeDependencies(rank: rank, in: &judged)
            try judgeReferences(rank: rank, in: &judged)
        } catch {
            return reject(error, mutation, index: index)
        }
        accept(judged)
    }

    /// Whether the entry was seen before, in the store or in this push (product rule 5), or its number was.
    private mutating func repetition(of mutation: Mutation, index: Int) -> PushVerdict? {
        let key = mutation.idempotencyKey
        if let known = snapshot.knownByKey[key] {
            if snapshot.uncompared.contains(index) { return .rejected(.tooManyToCompare(index: index)) }
            let isSame = snapshot.isRepetition(mutation, at: index, by: deviceID, of: FirstTry(known))
            return isSame ? .replayed(known) : .rejected(.keyReused(index: index))
        }
        if let first = acceptedByKey[key] {
            let isSame = snapshot.isRepetition(
                mutation,
                at: index,
                by: deviceID,
                of: FirstTry(first.mutation, by: deviceID, snapshot.localIDs.references(of: first.index))
            )
            // the record is filled in once the first has run
            return isSame ? .replayed(placeholder(for: mutation)) : .rejected(.keyReused(index: index))
        }
        if let earlier = rejection(under: key, mutation.sequenceNumber) { return .rejectedBefore(earlier.error) }
        if mutation.sequenceNumber <= snapshot.watermark {
            return .rejected(.sequenceUsed(index: index, watermark: snapshot.watermark))
        }
        if snapshot.knownByID[mutation.id] != nil || acceptedByID[mutation.id] != nil {
            let problem = Problem(
                .idAlreadyUsed,
                pointer: "/mutations/\(index)/id",
                rule: Rule.uuid,
                "this id belongs to a mutation with another idempotency_key; make a new id"
            )
            reject(problem, mutation, index: index)
            return .rejected(problem)
        }
        return nil
    }

    /// The refusal that an entry repeats. Numbers are a device's own: under the same number of another device the key is
    /// judged afresh.
    private func rejection(under key: UUID, _ number: Int64) -> Rejection? {
        guard let earlier = rejections[key] ?? snapshot.rejections[key] else { return nil }
        return earlier.sequenceNumber == number && earlier.deviceID == deviceID ? earlier : nil
    }

    private mutating func accept(_ judged: Accepted) {
        let mutation = judged.mutation
        acceptedByKey[mutation.idempotencyKey] = (judged.index, mutation)
        rejections[mutation.idempotencyKey] = nil
        acceptedByID[mutation.id] = judged.index
        if mutation.operation == .create, let localID = mutation.localID {
            createdBy[ClientKey(id: localID, type: mutation.entityType)] = judged.index
        }
        noteWrite(by: judged)
        accepted.append(judged)
    }

    private mutating func reject(_ problem: Problem, _ mutation: Mutation, index: Int) {
        refuseDependants(of: mutation)
        reject(
            problem,
            index: index,
            id: mutation.id,
            key: mutation.idempotencyKey,
            number: mutation.sequenceNumber
        )
    }

    private mutating func refuseDependants(of mutation: Mutation) {
        // a mutation of that id that was accepted before still counts
        if acceptedByID[mutation.id] == nil, snapshot.knownByID[mutation.id] == nil { rejectedIDs.insert(mutation.id) }
        if mutation.operation == .create, let localID = mutation.localID {
            rejectedCreates[localID, default: []].insert(mutation.entityType)
        }
    }

    private mutating func reject(_ problem: Problem, index: Int, id: UUID?, key: UUID, number: Int64) {
        verdicts[index] = .rejected(problem)
        rejections[key] = Rejection(
            idempotencyKey: key,
            id: id,
            deviceID: deviceID,
            sequenceNumber: number,
            error: problem.json
        )
    }

    // MARK: - Type and ids

    private func entityType(of mutation: Mutation, index: Int) throws(Problem) -> EntityType {
        guard let type = types(mutation.entityType) else {
            let detail = "'\(mutation.entityType)' is not a registered entity type of this organization"
            throw at(index, "/entity_type", Rule.entityType, detail)
        }
        return type
    }

    /// Not before its key was looked up: what was taken once is answered as it was then, whatever is on the list now.
    private func judgeHeaders(of mutation: Mutation, index: Int) throws(Problem) {
        guard let headers = mutation.headers else { return }
        let errors = HeaderRules.refused(headers, by: upstream, pointer: "/mutations/\(index)/headers")
        if let first = errors.first { throw Problem(.validationFailed, first.detail, errors: errors) }
    }

    private mutating func judgeIdentity(of mutation: Mutation, in judged: inout Accepted) throws(Problem) {
        let index = judged.index
        if judged.type.isForwarded {
            if mutation.endpoint == nil {
                let detail = "endpoint is required: '\(mutation.entityType)' is replayed against the organization's API"
                throw at(index, "/endpoint", Rule.required, detail)
            }
        }
        do throws(ContentRules.Violation) {
            try ContentRules.checkPayload(mutation.payload, of: mutation.operation, in: judged.type)
        } catch {
            throw at(index, "/payload" + error.pointer, error.rule, error.detail)
        }
        switch judged.type.idSpace {
        case .shared: try judgeSharedID(of: mutation, index: index)
        case .mapped, .device: try judgeMappedID(of: mutation, in: &judged)
        }
        dependOnEarlierWrites(of: mutation, in: &judged)
    }

    private func judgeSharedID(of mutation: Mutation, index: Int) throws(Problem) {
        if mutation.localID != nil {
            let detail = "'\(mutation.entityType)' has shared global ids: give server_id and no local_id"
            throw at(index, "/local_id", Rule.clientID, detail)
        }
        guard let id = mutation.serverID else {
            throw at(index, "/server_id", Rule.required, "server_id is required: the entity's global id")
        }
        guard id.isInteger || id.uuid != nil else {
            throw at(index, "/server_id", Rule.serverID, "a shared global id is a UUID or a 64-bit integer")
        }
    }

    /// Ids of a user's, or of one of the user's devices: what is created gets its permanent id later.
    private func judgeMappedID(of mutation: Mutation, in judged: inout Accepted) throws(Problem) {
        let index = judged.index
        try checkForm(of: mutation, in: judged)
        guard mutation.operation == .create else {
            guard let localID = mutation.localID else {
                if mutation.serverID == nil {
                    let detail = "local_id or server_id is required: which entity is meant?"
                    throw at(index, "/local_id", Rule.required, detail)
                }
                return
            }
            return try judgeTarget(localID, of: mutation, in: &judged)
        }
        guard let localID = mutation.localID else {
            throw at(index, "/local_id", Rule.clientID, "local_id is required: the client id of what is created")
        }
        guard mutation.serverID == nil else {
            throw at(index, "/server_id", Rule.serverID, "server_id must be null on a create: the server gives the id")
        }
        let isTaken =
            snapshot.usableMapping(localID, type: mutation.entityType) != nil
            || createdBy[ClientKey(id: localID, type: mutation.entityType)] != nil
        if isTaken {
            let name = mutation.localNumber.map { "local id \($0)" } ?? "this client id"
            let detail = "\(name) was created before in '\(mutation.entityType)'; make a new one"
            throw at(index, "/local_id", Rule.uniqueClientID, detail)
        }
    }

    private func checkForm(of mutation: Mutation, in judged: Accepted) throws(Problem) {
        guard mutation.localID != nil else { return }
        let name = mutation.entityType
        switch (judged.type.idSpace, mutation.localNumber) {
        case (.device, nil):
            let detail = "'\(name)' has device ids: local_id is a 64-bit integer that this device counts"
            throw at(judged.index, "/local_id", Rule.clientID, detail)
        case (.mapped, .some):
            let detail = "local_id must be a UUID: '\(name)' has no device ids"
            throw at(judged.index, "/local_id", Rule.clientID, detail)
        default: break
        }
    }

    /// The entity of an update, replace or delete that is named by its client id.
    private func judgeTarget(_ localID: UUID, of mutation: Mutation, in judged: inout Accepted) throws(Problem) {
        let type = mutation.entityType
        if let mapping = snapshot.usableMapping(localID, type: type) {
            if let given = mutation.serverID, let known = mapping.serverID, given.text != known.text {
                let detail = "local_id and server_id name different entities"
                throw at(judged.index, "/server_id", Rule.entityReference, detail)
            }
            judged.refer(to: localID, of: type, target(mapping, in: &judged))
        } else if let entry = createdBy[ClientKey(id: localID, type: type)] {
            judged.refer(to: localID, of: type, .entry(entry))
            judged.entries.append(entry)
        } else if rejectedCreates[localID]?.contains(type) == true {
            throw dependencyRejected(judged.index, "/local_id")
        } else if let serverID = mutation.serverID {
            judged.refer(to: localID, of: type, .server(serverID))
        } else if snapshot.mapping(localID, type: type) != nil {
            throw dependencyRejected(judged.index, "/local_id")
        } else {
            let detail =
                mutation.localNumber.map { Self.unknown(LocalID(entityType: type, number: $0)) }
                ?? "nobody created this client id in '\(type)'"
            throw at(judged.index, "/local_id", Rule.entityReference, detail)
        }
    }

    /// Product rule 3: a mutation depends on earlier mutations of the same entity.
    private func dependOnEarlierWrites(of mutation: Mutation, in judged: inout Accepted) {
        // one that takes over the client id of a create that was given up begins something new, and what failed for want
        // of that id may wait for it
        guard mutation.namesKnownEntity else { return }
        let serverID = resolvedServerID(of: mutation)
        if let localID = mutation.localID,
            let entry = lastByClientID[ClientKey(id: localID, type: mutation.entityType)],
            !judged.entries.contains(entry)
        {
            judged.entries.append(entry)
        }
        if let serverID, let entry = lastByServerID[EntityKey(type: mutation.entityType, id: serverID.text)],
            !judged.entries.contains(entry)
        {
            judged.entries.append(entry)
        }
        // the last of them: those before it are its own dependencies
        if let last = open.last(of: mutation, serverID), !judged.stored.contains(last.id) {
            judged.stored.append(last.id)
        }
    }

    private func resolvedServerID(of mutation: Mutation) -> ServerID? {
        mutation.serverID ?? mutation.localID.flatMap { snapshot.mapping($0, type: mutation.entityType)?.serverID }
    }

    /// Notes the last write of an entity under both names that it may go by within the push.
    private mutating func noteWrite(by judged: Accepted) {
        let mutation = judged.mutation
        // what follows a create that waits for its id waits for it as the client id's create
        guard mutation.namesKnownEntity else { return }
        if let localID = mutation.localID {
            lastByClientID[ClientKey(id: localID, type: mutation.entityType)] = judged.index
        }
        if let serverID = resolvedServerID(of: mutation) {
            lastByServerID[EntityKey(type: mutation.entityType, id: serverID.text)] = judged.index
        }
    }

    // MARK: - Dependencies

    private mutating func judgeDependencies(rank: Int, in judged: inout Accepted) throws(Problem) {
        for (place, id) in judged.mutation.dependencyIDs.enumerated() {
            let pointer = "/dependency_ids/\(place)"
            guard id != judged.mutation.id else {
                throw at(judged.index, pointer, Rule.dependencies, "a mutation cannot depend on itself")
            }
            if let known = snapshot.knownByID[id] {
                if known.status == .discarded, !known.satisfiesDependants {
                    throw dependencyRejected(judged.index, pointer)
                }
                if !known.satisfiesDependants { judged.stored.append(id) }
            } else if let entry = acceptedByID[id] {
                judged.entries.append(entry)
            } else if rejectedIDs.contains(id) {
                throw dependencyRejected(judged.index, pointer)
            } else if let later = rankOfMutation[id], later > rank {
                throw at(judged.index, pointer, Rule.dependencies, "names a mutation that runs later in this push")
            } else if try refer(to: id, pointer, rank: rank, in: &judged) == nil {
                let isOwn = judged.mutation.operation == .create && id == judged.mutation.localID
                let detail =
                    isOwn ? "a create cannot depend on itself" : "names no mutation or client id that is known here"
                throw at(judged.index, pointer, Rule.dependencies, detail)
            }
        }
    }

    private mutating func judgeReferences(rank: Int, in judged: inout Accepted) throws(Problem) {
        for id in judged.mutation.references where judged.references[id] == nil {
            // its own client id is no dependency
            if id == judged.mutation.localID { continue }
            _ = try refer(to: id, "/payload", rank: rank, in: &judged)
        }
        let index = judged.index
        if snapshot.localIDs.crowded.contains(index) {
            let detail =
                "the relations of a push may hold \(PushLocalIDs.limit) ids; send this in another push, under a higher number"
            throw at(index, "/payload", Rule.range, detail)
        }
        for reference in snapshot.localIDs.references(of: index) where judged.references[reference.clientID] == nil {
            let pointer = "/payload" + reference.place.pointer
            if reference.clientID == judged.mutation.localID {
                guard judged.type.isForwarded, judged.mutation.operation == .create else { continue }
                let detail = "leads to the entity that this creates: the organization's API has not given its id yet"
                throw at(index, pointer, Rule.dependencies, detail)
            }
            guard try refer(to: reference.clientID, pointer, rank: rank, in: &judged) == nil else { continue }
            throw at(index, pointer, Rule.entityReference, Self.unknown(reference.id))
        }
    }

    /// An integer that stands for nothing means nothing to anybody else, unlike a UUID, which may be data.
    private static func unknown(_ id: LocalID) -> String {
        "local id \(id.number) stands for nothing in '\(id.entityType)' on this device: it was neither created by it nor"
            + " assigned by a pull"
    }

    /// What a client id is called towards its client.
    private func name(of id: UUID) -> String {
        snapshot.localIDs.named[id].map { "local id \($0.number)" } ?? "client id \(id.lowercased)"
    }

    /// Follows a client id of this user; nil when it is just data.
    private func refer(
        to id: UUID,
        _ pointer: String,
        rank: Int,
        in judged: inout Accepted
    ) throws(Problem) -> Target? {
        let known = snapshot.mappings[id] ?? []
        let stored = known.filter { !$0.isAbandoned }
        // what it creates itself is nothing that it could wait for
        let here = (creates[id] ?? []).filter { create in
            create.rank != rank && !stored.contains { $0.entityType == create.type }
        }
        guard !known.isEmpty || !here.isEmpty else { return nil }
        let earlier = here.filter { createdBy[ClientKey(id: id, type: $0.type)] != nil }
        let refused = here.filter { rejectedCreates[id]?.contains($0.type) == true && $0.rank <= rank }
        let types = Set(stored.map(\.entityType)).union(earlier.map(\.type))
        guard types.count <= 1 else {
            throw .ambiguous(name(of: id), types, at: "/mutations/\(judged.index)" + pointer)
        }
        let (target, type): (Target, String)
        if let mapping = stored.first {
            (target, type) = (self.target(mapping, in: &judged), mapping.entityType)
        } else if let create = earlier.first,
            let entry = createdBy[ClientKey(id: id, type: create.type)]
        {
            (target, type) = (.entry(entry), create.type)
            if !judged.entries.contains(entry) { judged.entries.append(entry) }
        } else if !refused.isEmpty || !here.contains(where: { $0.rank > rank }) {
            // what stands before it here and was not taken in is a repetition of a create that was discarded
            throw dependencyRejected(judged.index, pointer)
        } else {
            let detail = "\(name(of: id)) is created later in this push; put the create before its use"
            throw at(judged.index, pointer, Rule.dependencies, detail)
        }
        judged.refer(to: id, of: type, target)
        return target
    }

    private func target(_ mapping: IDMapping, in judged: inout Accepted) -> Target {
        if mapping.status == .resolved, let serverID = mapping.serverID { return .server(serverID) }
        if !judged.stored.contains(mapping.mutationID) { judged.stored.append(mapping.mutationID) }
        return .mutation(mapping.mutationID)
    }

    // MARK: - Problems

    private func at(_ index: Int, _ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "/mutations/\(index)" + pointer, rule: rule, detail)
    }

    private func dependencyRejected(_ index: Int, _ pointer: String) -> Problem {
        Problem(
            .dependencyRejected,
            pointer: "/mutations/\(index)" + pointer,
            rule: Rule.dependencies,
            "depends on a mutation that was rejected or discarded; correct that one and send both again"
        )
    }

    /// Stands for a repetition within the push until its first has run.
    private func placeholder(for mutation: Mutation) -> MutationRecord {
        MutationRecord(
            id: mutation.id,
            idempotencyKey: mutation.idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: mutation.sequenceNumber,
            position: 0,
            operation: mutation.operation,
            entityType: mutation.entityType,
            status: .pending,
            localID: mutation.localID,
            localNumber: mutation.localNumber,
            serverID: mutation.serverID,
            fingerprint: mutation.fingerprint,
            acceptedAt: Timestamp(microseconds: 0)
        )
    }
}

/// The latest open mutation on each entity, by both of the names that it may go by.
private struct OpenMutations {
    private struct Name<ID: Hashable>: Hashable {
        let type: String
        let id: ID
    }

    private var byClientID: [Name<UUID>: OpenMutation] = [:]
    /// By the text: what an integer's digits are written as is the same entity.
    private var byServerID: [Name<String>: OpenMutation] = [:]

    init(_ mutations: [OpenMutation]) {
        for mutation in mutations.sorted(by: { $0.position < $1.position }) {
            if let id = mutation.localID { byClientID[Name(type: mutation.entityType, id: id)] = mutation }
            if let id = mutation.serverID { byServerID[Name(type: mutation.entityType, id: id.text)] = mutation }
        }
    }

    /// The last one on the entity that a mutation writes.
    func last(of mutation: Mutation, _ serverID: ServerID?) -> OpenMutation? {
        if byClientID.isEmpty, byServerID.isEmpty { return nil }
        let type = mutation.entityType
        let found = [
            mutation.localID.flatMap { byClientID[Name(type: type, id: $0)] },
            serverID.flatMap { byServerID[Name(type: type, id: $0.text)] },
        ]
        return found.compactMap { $0 }.max { $0.position < $1.position }
    }
}

extension Problem {
    fileprivate static func keyReused(index: Int) -> Problem {
        Problem(
            .idempotencyKeyReused,
            pointer: "/mutations/\(index)/idempotency_key",
            rule: "idempotency_key_unique_per_mutation",
            "this key came before with other content; a changed mutation needs a new key"
        )
    }

    /// A repetition in which more ids differ than are looked up for one push: nothing is said about it.
    fileprivate static func tooManyToCompare(index: Int) -> Problem {
        let detail =
            "this key came before, and the repetitions of a push may name \(ComparedIDs.limit) ids that are to be compared;"
            + " send this one again in another push"
        return Problem(.validationFailed, pointer: "/mutations/\(index)", rule: Rule.range, detail)
    }

    fileprivate static func sequenceUsed(index: Int, watermark: Int64) -> Problem {
        Problem(
            .sequenceAlreadyUsed,
            pointer: "/mutations/\(index)/sequence_number",
            rule: Rule.sequence,
            "numbers up to \(watermark) were judged before; use a higher one"
        )
    }
}
