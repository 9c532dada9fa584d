import Foundation
import GRDB

/// The stages that send writes to the gateway.
extension SyncWorker {
    /// Registers this device at the gateway, and reads the device's watermark. If the phone was restored from a backup,
    /// its numbers continue after the watermark. If the gateway was restored, the phone sends all mutations above the
    /// watermark again.
    ///
    /// The registration takes place at each launch, and when the gateway refuses the phone's cursor.
    ///
    /// - Returns: whether the gateway has lost writes.
    @discardableResult
    func register() async throws -> Bool {
        guard !hasRegistered else { return false }
        let device = try await write { db, _ in try Device.id(db) }
        switch try await send(GatewayRequest(method: "PUT", path: "/v1/devices/\(device.wire)", body: [:])) {
        case .refused(let problem): throw Stop.blocked(.refused(problem))
        case .ok(let answer):
            guard let accepted = answer.acceptedSequence else {
                throw Stop.again(TransientError(text: "the answer to a registration has no accepted_sequence"))
            }
            let numbers = answer.nextLocalIDs
            let (suspects, hasLost) = try await write { [map] db, now in
                let known = try Int64.fetchOne(db, sql: "SELECT accepted_sequence FROM sluice_device") ?? 0
                if accepted < known {
                    try Self.reopen(above: accepted, map, db, now: now)
                } else {
                    try Intent.repeatDiscards(above: known, upTo: accepted, db, now: now)
                    if accepted > known { try Outbox.noteRestore(upTo: accepted, db) }
                    try Outbox.note(accepted: accepted, db)
                }
                let suspects = try DeviceNumbers(map, db).suspects(numbers)
                try DeviceNumbers(map, db).raise(to: numbers)
                return (suspects, accepted < known)
            }
            for suspect in suspects { try await clear(suspect) }
            hasRegistered = true
            return hasLost
        }
    }

    /// Reopens mutations that the gateway has lost, and writes the rows that these mutations change.
    private static func reopen(above watermark: Int64, _ map: EntityMap, _ db: Database, now: Date) throws {
        try Outbox.reopen(above: watermark, db, now: now)
        let names = try Row.fetchAll(
            db,
            sql: "SELECT DISTINCT entity_type, key FROM sluice_mutations WHERE status = 'queued' AND is_shown"
        )
        try Projection(map, db, now: now).refresh(names.map { EntityName($0[0], $0[1]) })
    }

    /// Assigns another local id of the device to a row, unless the gateway already has the row under its present
    /// local id.
    private func clear(_ suspect: DeviceNumbers.Suspect) async throws {
        let request = GatewayRequest(path: "/v1/mutations/\(suspect.mutation.wire)")
        guard case .refused(let problem) = try await send(request), problem.status == 404 else { return }
        try await write { [map] db, _ in try DeviceNumbers(map, db).renumber(suspect.name) }
    }

    /// Sends people's decisions about writes.
    func settle() async throws {
        while let intent = try await write({ db, _ in try Intent.next(db) }) {
            let path = "/v1/mutations/\(intent.mutationID.wire)/\(intent.action.rawValue)"
            let reply = try await send(GatewayRequest(method: "POST", path: path, body: intent.body))
            let result: MutationResult?
            switch reply {
            case .ok(let answer):
                result = MutationResult(answer)
                // the JSON comes from another server on the path, not from the gateway, so it is unknown whether the
                // gateway has accepted the decision
                guard result?.id == intent.mutationID else {
                    throw Stop.again(TransientError(text: "a malformed response to a decision"))
                }
            case .refused: result = nil
            }
            try await write { [map] db, now in
                switch reply {
                case .ok:
                    if let result { try intent.apply(result, map, db, now: now) }
                case .refused(let problem): try intent.apply(problem, map, db, now: now)
                }
            }
            noteSettled(intent.mutationID)
            noteProgress()
            requestEverything()
        }
    }

    /// Pushes all waiting mutations.
    func push() async throws {
        if map.hasDeviceIDs, try await write({ [map] db, _ in try DeviceNumbers(map, db).areMissing() }) { return }
        while let batch = try await write({ [limits, map] db, now in
            try PushBatch.next(limits, db, Projection(map, db, now: now))
        }) {
            status.update { $0.phase = .pushing }
            try await send(batch)
        }
    }

    private func send(_ batch: PushBatch) async throws {
        switch try await send(GatewayRequest(method: "POST", path: "/v1/mutations", body: batch.body)) {
        case .ok(let answer):
            try await apply(answer, to: batch)
            noteProgress()
            limits = configuration.limits
            isPullRequested = true
            expectOutcomes()
        case .refused(let problem): try await handle(problem, of: batch)
        }
    }

    private func apply(_ answer: JSON, to batch: PushBatch) async throws {
        let keep = configuration.keep.seconds
        let mayRenumber = mayRenumber()
        let (isApplied, isRenumbered) = try await write { [map] db, now in
            let push = PushAnswer(map, db, now: now)
            guard try push.apply(answer, to: batch) else { return (false, false) }
            let moment = now.addingTimeInterval(-keep)
            return (true, try mayRenumber && push.renumber(answer, batch, writtenAfter: moment))
        }
        guard isApplied else {
            throw Stop.again(TransientError(text: "a malformed response to a push"))
        }
        try await noteQueue(answer["held_by"])
        if isRenumbered {
            // the other phone may also have assigned the same local ids to rows
            noteRenumbering()
            hasRegistered = false
            try await register()
        }
        let results = answer.results.compactMap(MutationResult.init)
        if results.contains(where: \.isKeyReused) { try await readReused() }
        await readCut(results)
    }

    /// Reads the mutations that the gateway has stored with other content under the same keys or ids. A copy of this
    /// phone's database has sent these mutations, with server ids in place of this device's local ids.
    private func readReused() async throws {
        for id in try await write({ db, _ in try FailedWrite.reused(db) }) {
            guard case .ok(var answer) = try await send(GatewayRequest(path: "/v1/mutations/\(id.wire)")) else {
                continue
            }
            answer["replayed"] = true
            guard let result = MutationResult(answer), result.id == id else { continue }
            try await write { [map] db, now in try PushAnswer(map, db, now: now).apply(result) }
            isPullRequested = true
        }
    }

    /// The maximum number of shortened results that are read one by one after a push. The pull returns the entities of
    /// all other shortened results.
    private static let cutResults = 20

    /// Reads mutations whose entities were too large for the response to a push.
    ///
    /// The push has already been applied, so a failure in this step leaves the results as they are.
    private func readCut(_ results: [MutationResult]) async {
        for id in results.filter(\.isCut).prefix(Self.cutResults).map(\.id) {
            guard case .ok(let answer)? = try? await send(GatewayRequest(path: "/v1/mutations/\(id.wire)")),
                let result = MutationResult(answer), result.id == id
            else { return }
            try? await write { [map] db, now in try PushAnswer(map, db, now: now).apply(result) }
        }
    }

    /// Stores the reason why the user's queue at the gateway is stopped.
    private func noteQueue(_ hold: JSON?) async throws {
        queueNotedAt = turnBegan
        let ids = (hold?["mutation_ids"]?.array ?? []).compactMap { $0.string.flatMap(UUID.init(text:)) }
        let blocker = hold?["reason"]?.string.map { SyncStatus.Blocker.queue(reason: $0, mutations: ids) }
        status.update { $0.blockedBy = blocker }
        // if a write of another device stops the queue, the phone needs a copy of the write, so that a person can
        // settle it here
        guard let reason = hold?["reason"]?.string, ["conflict", "failure"].contains(reason) else { return }
        if try await write({ db, _ in try OtherWrite.isAnyUnknown(ids, db) }) { requestOthersCheck() }
    }

    /// Handles a push that was refused as a whole (`docs/clients.md`, the answer to a request).
    private func handle(_ problem: Problem, of batch: PushBatch) async throws {
        switch problem.code {
        case "sequence_gap":
            // mutations are reopened only if the gateway's `expected` is below the push's `after_sequence`, because the
            // gap would otherwise recur immediately. They are reopened only once in a turn, because many small steps
            // back would cause many requests.
            let expected = problem.json["expected"]?.int64
            guard let expected, (0..<batch.afterSequence).contains(expected), mayReopen() else {
                throw Stop.again(TransientError(text: problem.description))
            }
            try await write { [map] db, now in try Self.reopen(above: expected, map, db, now: now) }
        case "payload_too_large" where batch.rows.count > 1:
            limits.entries = max(1, batch.rows.count / 2)
            limits.bytes = max(1, limits.bytes / 2)
        case "payload_too_large", "invalid_json", "invalid_request":
            guard batch.rows.count > 1 else {
                return try await write { [map] db, now in
                    try PushAnswer(map, db, now: now).reject(batch.rows[0], problem)
                }
            }
            // one of the entries makes the body unreadable; pushes with a single entry find this entry
            limits.entries = 1
        default: throw Stop.blocked(.refused(problem))
        }
    }

    /// Reads the outcomes of accepted mutations, by pushing these mutations again.
    func recheck() async throws {
        let isStoppedDue = isStoppedDue
        try await checkStopped()
        if isRecheckDue { try await recheckOpen() }
        try await readQueue(isStoppedDue: isStoppedDue)
    }

    /// Sends successful writes again, so that the gateway returns their states. A restored gateway may lack some of
    /// these writes although their numbers are not above its watermark: another phone with the same device id may have
    /// used the numbers in the meantime.
    ///
    /// - Returns: whether the gateway lacks any of these writes.
    func recheckEnded() async throws -> Bool {
        let keep = configuration.keep.seconds
        var (after, hasLost): (Int64, Bool) = (0, false)
        while let batch = try await write({ [after, limits] db, _ in try PushBatch.ended(after: after, limits, db) }) {
            after = batch.rows.last?.sequence ?? .max
            switch try await send(GatewayRequest(method: "POST", path: "/v1/mutations", body: batch.body)) {
            case .ok(let answer):
                let isAny = try await write { [map] db, now in
                    try PushAnswer(map, db, now: now).reopenLost(answer, writtenAfter: now.addingTimeInterval(-keep))
                }
                hasLost = hasLost || isAny
            case .refused(let problem) where problem.code == "payload_too_large" && batch.rows.count > 1:
                limits.entries = max(1, batch.rows.count / 2)
                after = (batch.rows.first?.sequence ?? 1) - 1
            case .refused(let problem) where problem.code == "sequence_gap":
                try await handle(problem, of: batch)
                return true
            case .refused(let problem): throw Stop.blocked(.refused(problem))
            }
        }
        return hasLost
    }

    private func recheckOpen() async throws {
        var (isOpen, hasChanged) = (recheckedUpTo > 0, false)
        while let batch = try await write({ [recheckedUpTo, limits] db, _ in
            // each request is small, so that the check makes progress even if a deadline interrupts it
            var limits = limits
            limits.entries = min(limits.entries, 100)
            return try PushBatch.open(after: recheckedUpTo, limits, db)
        }) {
            switch try await send(GatewayRequest(method: "POST", path: "/v1/mutations", body: batch.body)) {
            case .ok(let answer):
                try await apply(answer, to: batch)
                recheckedUpTo = batch.rows.last?.sequence ?? .max
                noteProgress()
                let statuses = (answer["results"]?.array ?? []).compactMap(MutationResult.init).map(\.status)
                isOpen = isOpen || statuses.contains { $0.isOpen }
                hasChanged = hasChanged || statuses.contains { !$0.isOpen }
            case .refused(let problem) where problem.code == "payload_too_large" && batch.rows.count > 1:
                limits.entries = max(1, batch.rows.count / 2)
            case .refused(let problem) where problem.code == "sequence_gap":
                try await handle(problem, of: batch)
                // the lost mutations are sent first
                recheckedUpTo = 0
                return try await push()
            case .refused(let problem): throw Stop.blocked(.refused(problem))
            }
        }
        recheckedUpTo = 0
        if hasChanged { isPullRequested = true }
        noteRecheck(isOpen: isOpen, hasChanged: hasChanged)
    }

    /// Requests the state of writes that wait for a decision. An operator, or the user on another phone, may have
    /// decided about them. The phone reads the writes instead of pushing them, because a push would run writes that the
    /// gateway no longer has.
    private func checkStopped() async throws {
        guard isStoppedDue else { return }
        stoppedCheckedAt = .now
        isOthersCheckRequested = false
        do {
            try await readStopped()
        } catch let stop as Stop {
            // the next attempt follows after a minute, so that repeated failures here do not prevent the checks of open
            // mutations
            stoppedCheckedAt = ContinuousClock.now.advanced(by: .seconds(60) - Self.stoppedInterval)
            throw stop
        }
    }

    private func readStopped() async throws {
        try await readReused()
        for id in try await write({ db, _ in try FailedWrite.acceptedButFailed(db) }) {
            guard case .ok(let answer) = try await send(GatewayRequest(path: "/v1/mutations/\(id.wire)")),
                let result = MutationResult(answer), result.id == id, ![.failed, .conflict].contains(result.status)
            else { continue }
            try await write { [map] db, now in try PushAnswer(map, db, now: now).apply(result) }
            isPullRequested = true
            noteSettled(id)
        }
        try await readOtherDevices()
    }

    /// Reads the writes of the user's other devices that need a decision.
    private func readOtherDevices() async throws {
        var request = GatewayRequest(path: "/v1/mutations")
        var mutations: [JSON] = []
        var cursor: String?
        for _ in 0..<10 {
            request.query = [URLQueryItem(name: "status", value: "failed,conflict")]
            if let cursor { request.query.append(URLQueryItem(name: "cursor", value: cursor)) }
            guard case .ok(let answer) = try await send(request), let page = answer["mutations"]?.array else { return }
            mutations += page
            cursor = answer["next"]?.string
            if cursor == nil { break }
        }
        try await write { [mutations, map] db, now in
            try OtherWrite.replaceAll(mutations, map, db)
            try OtherWrite.repeatLostDecisions(mutations, map, db, now: now)
        }
    }

    /// Reads whether the user's queue is stopped, unless a push of this turn has returned that state.
    ///
    /// - Parameter isStoppedDue: whether this turn has requested the states of writes that wait for a decision. If so,
    ///   and if there are such writes, the state of the queue is read even if this client has pushed nothing since it
    ///   was created: the writes may stop the queue.
    private func readQueue(isStoppedDue: Bool) async throws {
        guard queueNotedAt != turnBegan else { return }
        if !status.status.isQueueHeld {
            guard isStoppedDue, try await database.read({ try FailedWrite.isAnyAccepted($0) }) else { return }
        }
        guard case .ok(let answer) = try await send(GatewayRequest(path: "/v1/backlog")),
            let lane = answer["lane"]?.object
        else { return }
        try await noteQueue(lane["held_by"])
    }

    /// Updates the status after a decision about a write, because the user's queue may no longer be stopped.
    private func noteSettled(_ id: UUID) {
        status.update { status in
            if case .queue(_, let holding) = status.blockedBy, holding.contains(id) { status.blockedBy = nil }
        }
    }
}
