import FoundationEssentials

/// Evaluates the entries of a push in running order, without executing them.
///
/// The validator decides which entries are repeats, which are refused, and which are accepted. It also determines the
/// reasons for refusals, and the dependencies of accepted entries (product rules 1, 3, 5 and 9).
struct PushValidator {
    let snapshot: PushSnapshot
    let types: (String) -> EntityType?
    let upstream: UpstreamSettings?
    private let deviceID: UUID
    /// Whether mutations with the same order key keep their order (product rule 3).
    private let keepsOrderKeys: Bool
    /// For each entity, the latest stored mutation that is not final.
    private(set) var open = EntityIndex<OpenMutation>()

    /// Results by index; nil for entries that this push accepts, and for repeats of such entries within the push.
    private(set) var verdicts: [PushVerdict?]
    private(set) var accepted: [ValidatedMutation] = []
    /// For each entry that repeats an accepted entry of this push, the index of the accepted entry.
    private(set) var repeated: [Int: Int] = [:]
    /// Refused entries to record, by idempotency key.
    private(set) var rejections: [UUID: Rejection] = [:]
    /// Whether an entry is refused although not every key, id and client id of the push was looked up.
    ///
    /// Such a refusal is not final, because a row that was not read could change the result:
    /// - The row may be the entry's first attempt. The entry is then a repeat.
    /// - The row may be a dependency that seems to be missing.
    /// - The row may have the same id or client id as the entry. The reason for the refusal is then different.
    ///
    /// An entry that repeats a stored refusal needs no look-up, because the refusal was found by the entry's key.
    var needsProbe: Bool {
        !snapshot.isComplete
            && verdicts.contains { verdict in
                if case .rejected? = verdict { true } else { false }
            }
    }

    /// The number of entries that are evaluated for the first time and get a record.
    ///
    /// The record is either a mutation or a refusal.
    var newCount: Int { accepted.count + rejections.count }

    /// The number of errors that the entries of the push may still list.
    private(set) var errorAllowance = ErrorAllowance()

    /// The creates of the push by client id, with each create's entity type and rank in the running order.
    ///
    /// An invalid create has the rank -1.
    private(set) var creates: ValuesByID<(type: String, rank: Int)>
    private(set) var rankOfMutation: [UUID: Int] = [:]
    private var acceptedByKey: [UUID: (index: Int, mutation: Mutation)] = [:]
    private(set) var acceptedByID: [UUID: Int] = [:]
    private(set) var rejectedIDs: Set<UUID> = []
    private(set) var createdBy: [ClientReference: Int] = [:]
    private(set) var rejectedCreates: Set<ClientReference> = []
    /// For each entity, the index of the latest entry that writes it.
    private(set) var writes = EntityIndex<Int>()
    /// For each order key, the index of the latest accepted entry.
    private var orderKeys: [ByteExactString: Int] = [:]

    /// - Parameter organization: supplies the order of a lane's mutations, and the upstream, whose settings list the
    ///   permitted headers.
    init(
        _ push: PushRequest,
        snapshot: PushSnapshot,
        of organization: Organization,
        types: @escaping (String) -> EntityType?
    ) {
        self.snapshot = snapshot
        self.types = types
        upstream = organization.upstream
        keepsOrderKeys = organization.settings.order == .dependencies
        deviceID = push.deviceID
        verdicts = Array(repeating: nil, count: push.entries.count)
        let count = push.entries.count
        creates = ValuesByID(capacity: count)
        accepted.reserveCapacity(count)
        rankOfMutation.reserveCapacity(count)
        acceptedByKey.reserveCapacity(count)
        acceptedByID.reserveCapacity(count)
        createdBy.reserveCapacity(count)
        for mutation in snapshot.open.sorted(by: { $0.position < $1.position }) {
            open.record(mutation, of: mutation.entity)
        }
        let running = RunningOrder(push.entries) { mutation in
            mutation.priority ?? types(mutation.entity.type)?.defaultPriority ?? 0
        }
        for (rank, index) in running.order.enumerated() {
            guard let mutation = push.entries[index].mutation else { continue }
            if rankOfMutation[mutation.id] == nil { rankOfMutation[mutation.id] = rank }
            if let created = mutation.created {
                creates.add((created.entityType, rank), of: created.clientID)
            }
        }
        // invalid entries are evaluated first, because entries that refer to them must be refused, too
        for entry in push.entries where entry.refusal != nil { judgeInvalid(entry) }
        for (rank, index) in running.order.enumerated() {
            guard let mutation = push.entries[index].mutation else { continue }
            judge(mutation, index: index, rank: rank, isCyclic: running.cyclic.contains(index))
        }
    }

    // MARK: - Verdicts

    private mutating func judgeInvalid(_ entry: PushEntry) {
        guard let problem = entry.refusal else { return }
        errorAllowance.count(problem.errors.count)
        // the entry may repeat a mutation that was accepted when the limits were higher; such a repeat is not refused
        let repeated = entry.content.flatMap { mutation in
            snapshot.knownByKey[mutation.idempotencyKey] == nil ? nil : repetition(of: mutation, index: entry.index)
        }
        if case .replayed? = repeated {
            verdicts[entry.index] = repeated
            return
        }
        if let id = entry.id { rejectedIDs.insert(id) }
        if let create = entry.attemptedCreate {
            creates.add((create.entityType, -1), of: create.clientID)
            rejectedCreates.insert(create)
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
        if let first = acceptedByKey[mutation.idempotencyKey], snapshot.knownByKey[mutation.idempotencyKey] == nil {
            return judgeAgain(mutation, index: index, first: first)
        }
        if let verdict = repetition(of: mutation, index: index) {
            verdicts[index] = verdict
            if case .rejected = verdict { refuseDependants(of: mutation) }
            if case .rejectedBefore = verdict { refuseDependants(of: mutation) }
            return
        }
        do throws(Problem) {
            accept(try judged(mutation, index: index, rank: rank, isCyclic: isCyclic))
        } catch {
            reject(error, mutation, index: index)
        }
    }

    private func judged(
        _ mutation: Mutation,
        index: Int,
        rank: Int,
        isCyclic: Bool
    ) throws(Problem) -> ValidatedMutation {
        if isCyclic {
            throw at(index, "/dependency_ids", Rule.dependencies, "these mutations depend on each other in a circle")
        }
        var judged = ValidatedMutation(
            index: index,
            mutation: mutation,
            type: try entityType(of: mutation, index: index)
        )
        try judgeHeaders(of: mutation, index: index)
        try judgeIdentity(of: mutation, in: &judged)
        try judgeDependencies(rank: rank, in: &judged)
        try judgeReferences(rank: rank, in: &judged)
        waitForOrderKey(of: mutation, in: &judged)
        return judged
    }

    /// Makes a mutation depend on the latest mutation with the same order key (product rule 3).
    ///
    /// The latest mutation is sufficient, because it depends on the earlier ones.
    private func waitForOrderKey(of mutation: Mutation, in judged: inout ValidatedMutation) {
        guard keepsOrderKeys, let key = mutation.orderKey.map({ ByteExactString($0) }) else { return }
        if let entry = orderKeys[key] {
            judged.wait(forEntry: entry)
        } else if let stored = snapshot.openOrderKeys[key] {
            judged.wait(for: stored)
        }
    }

    /// Evaluates an entry that has the same key as an earlier, accepted entry of this push.
    private mutating func judgeAgain(_ mutation: Mutation, index: Int, first: (index: Int, mutation: Mutation)) {
        let before = FirstAttempt(first.mutation, by: deviceID, snapshot.localIDs.references(of: first.index))
        guard snapshot.isRepetition(mutation, at: index, by: deviceID, of: before) else {
            verdicts[index] = .rejected(.keyReused(index: index))
            return refuseDependants(of: mutation)
        }
        // the entry gets the result of the first entry
        repeated[index] = first.index
    }

    /// Returns the result of an entry that repeats a stored entry (product rule 5); nil for a new entry.
    ///
    /// The result is a refusal if the entry has a new key, but its sequence number or id was used before.
    private mutating func repetition(of mutation: Mutation, index: Int) -> PushVerdict? {
        let key = mutation.idempotencyKey
        if let known = snapshot.knownByKey[key] {
            if snapshot.uncompared.contains(index) { return .rejected(.tooManyToCompare(index: index)) }
            let isSame = snapshot.isRepetition(mutation, at: index, by: deviceID, of: FirstAttempt(known))
            return isSame ? .replayed(known) : .rejected(.keyReused(index: index))
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
                "this id belongs to a mutation with another idempotency_key; use a new id"
            )
            reject(problem, mutation, index: index)
            return .rejected(problem)
        }
        return nil
    }

    /// Returns the stored refusal that an entry repeats.
    ///
    /// An entry from another device is not such a repeat even if it has the same key and number, because each device
    /// has its own sequence numbers.
    private func rejection(under key: UUID, _ number: Int64) -> Rejection? {
        guard let earlier = rejections[key] ?? snapshot.rejections[key] else { return nil }
        return earlier.sequenceNumber == number && earlier.deviceID == deviceID ? earlier : nil
    }

    private mutating func accept(_ judged: ValidatedMutation) {
        let mutation = judged.mutation
        acceptedByKey[mutation.idempotencyKey] = (judged.index, mutation)
        if !rejections.isEmpty { rejections[mutation.idempotencyKey] = nil }
        acceptedByID[mutation.id] = judged.index
        if let created = mutation.created { createdBy[created] = judged.index }
        // later entries for this entity depend on this entry; if this entry is a create without a server id, later
        // entries find it by its client id instead
        if mutation.namesKnownEntity { writes.record(judged.index, of: known(mutation.entity)) }
        if let key = mutation.orderKey { orderKeys[ByteExactString(key)] = judged.index }
        accepted.append(judged)
    }

    private mutating func reject(_ problem: Problem, _ mutation: Mutation, index: Int) {
        errorAllowance.count(problem.errors.count)
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
        // if an accepted mutation has the same id, other entries can still depend on the accepted mutation
        if acceptedByID[mutation.id] == nil, snapshot.knownByID[mutation.id] == nil { rejectedIDs.insert(mutation.id) }
        if let created = mutation.created { rejectedCreates.insert(created) }
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
}

extension PushValidator {
    /// The problem that refuses a strict push as a whole; nil if every entry is valid.
    ///
    /// A strict push is applied completely or not at all.
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
                        detail: "this entry was rejected before; correct it and send it with a new sequence number"
                    )
                ]
            }
        }
        guard !problems.isEmpty else { return nil }
        var problem = Problem(
            .validationFailed,
            "\(problems.count) of the mutations are rejected, and handling=strict accepts all or none",
            errors: problems.flatMap { $0 }
        )
        for case .rejected(let refusal)? in verdicts { problem.omittedErrors += refusal.omittedErrors }
        return problem
    }
}

extension Problem {
    static func keyReused(index: Int) -> Problem {
        Problem(
            .idempotencyKeyReused,
            pointer: "/mutations/\(index)/idempotency_key",
            rule: "idempotency_key_unique_per_mutation",
            "this key was used with other content; a changed mutation needs a new key"
        )
    }

    /// The problem of a repeat that is not compared with its first attempt.
    ///
    /// To compare such a repeat, the gateway would have to look up more ids than the limit for one push
    /// (``ComparedIDs/limit``).
    static func tooManyToCompare(index: Int) -> Problem {
        let detail =
            "this key was used before, and the repeated entries of this push contain more than \(ComparedIDs.limit) ids "
            + "to compare; send this entry again in another push"
        return Problem(.validationFailed, pointer: "/mutations/\(index)", rule: Rule.range, detail)
    }

    static func sequenceUsed(index: Int, watermark: Int64) -> Problem {
        Problem(
            .sequenceAlreadyUsed,
            pointer: "/mutations/\(index)/sequence_number",
            rule: Rule.sequence,
            "numbers up to \(watermark) were used before; use a higher one"
        )
    }
}
