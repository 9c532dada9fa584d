import Foundation
import GRDB

/// The stages that carry writes to the gateway.
extension SyncWorker {
    /// Registers this device at the gateway once a launch, and reads how far the gateway has accepted the device's
    /// numbers: a phone that was restored from a backup continues after them.
    func register() async throws {
        guard !hasRegistered else { return }
        let device = try await write { db, _ in try Device.id(db) }
        switch try await send(GatewayRequest(method: "PUT", path: "/v1/devices/\(device.wire)", body: [:])) {
        case .refused(let problem): throw Stop.blocked(.refused(problem))
        case .ok(let answer):
            guard let accepted = answer.acceptedSequence else {
                throw Stop.again(Trouble(text: "the answer to a registration has no accepted_sequence"))
            }
            let numbers = answer.nextLocalIDs
            let suspects = try await write { [map] db, now in
                let known = try Int64.fetchOne(db, sql: "SELECT accepted_sequence FROM sluice_device") ?? 0
                if accepted < known {
                    try Outbox.reopen(above: accepted, db, now: now)
                } else {
                    try Intent.repeatDiscards(above: known, upTo: accepted, db, now: now)
                    try Outbox.note(accepted: accepted, db)
                }
                let suspects = try DeviceNumbers(map, db).suspects(numbers)
                try DeviceNumbers(map, db).raise(to: numbers)
                return suspects
            }
            for suspect in suspects { try await clear(suspect) }
            hasRegistered = true
        }
    }

    /// Gives a row another number of the device, unless the gateway has the row under the one that it has.
    private func clear(_ suspect: DeviceNumbers.Suspect) async throws {
        let request = GatewayRequest(path: "/v1/mutations/\(suspect.mutation.wire)")
        guard case .refused(let problem) = try await send(request), problem.status == 404 else { return }
        try await write { [map] db, _ in try DeviceNumbers(map, db).renumber(suspect.name) }
    }

    /// Sends what people decided about writes.
    func settle() async throws {
        while let intent = try await write({ db, _ in try Intent.next(db) }) {
            let path = "/v1/mutations/\(intent.mutationID.wire)/\(intent.action.rawValue)"
            let reply = try await send(GatewayRequest(method: "POST", path: path, body: intent.body))
            let result: MutationResult?
            switch reply {
            case .ok(let answer):
                result = MutationResult(answer)
                // JSON of another server in between: it is unknown whether the decision was accepted
                guard result?.id == intent.mutationID else {
                    throw Stop.again(Trouble(text: "a malformed response to a decision"))
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
            wantEverything()
        }
    }

    /// Pushes everything that waits.
    func push() async throws {
        while let batch = try await write({ [limits, map] db, now in
            try PushBatch.next(limits, db, ShownRows(map, db, now: now))
        }) {
            status.update { $0.phase = .pushing }
            try await send(batch)
        }
    }

    private func send(_ batch: PushBatch) async throws {
        switch try await send(GatewayRequest(method: "POST", path: "/v1/mutations", body: batch.body)) {
        case .ok(let answer):
            try await apply(answer, to: batch)
            limits = configuration.limits
            isPullWanted = true
            expectOutcomes()
        case .refused(let problem): try await handle(problem, of: batch)
        }
    }

    private func apply(_ answer: JSON, to batch: PushBatch) async throws {
        let isApplied = try await write { [map] db, now in
            try PushAnswer(map, db, now: now).apply(answer, to: batch)
        }
        guard isApplied else { throw Stop.again(Trouble(text: "an answer to a push that is not what it should be")) }
        noteQueue(answer["held_by"])
        await readCut(answer.results.compactMap(MutationResult.init))
    }

    /// Results that are read one by one behind a push, at most; the pull brings the entities of all others.
    private static let cutResults = 20

    /// Reads mutations whose entity did not fit the answer to a push.
    ///
    /// The push is applied already, so a failure here leaves the results as they are.
    private func readCut(_ results: [MutationResult]) async {
        for id in results.filter(\.isCut).prefix(Self.cutResults).map(\.id) {
            guard case .ok(let answer)? = try? await send(GatewayRequest(path: "/v1/mutations/\(id.wire)")),
                let result = MutationResult(answer), result.id == id
            else { return }
            try? await write { [map] db, now in try PushAnswer(map, db, now: now).apply(result) }
        }
    }

    /// What keeps the user's queue at the gateway from running.
    private func noteQueue(_ hold: JSON?) {
        let blocker = hold?["reason"]?.string.map { reason in
            let ids = hold?["mutation_ids"]?.array ?? []
            return SyncStatus.Blocker.queue(
                reason: reason,
                mutations: ids.compactMap { $0.string.flatMap(UUID.init(text:)) }
            )
        }
        status.update { $0.blockedBy = blocker }
    }

    /// A push that was refused whole (`docs/clients.md`, the answer to a request).
    private func handle(_ problem: Problem, of batch: PushBatch) async throws {
        switch problem.code {
        case "sequence_gap":
            // a gap that does not set the phone back would recur immediately, and one that sets it back by little each
            // time would recur often
            let expected = problem.json["expected"]?.int64
            guard let expected, (0..<(batch.afterSequence ?? .max)).contains(expected), mayReopen() else {
                throw Stop.again(Trouble(text: problem.description))
            }
            try await write { db, now in try Outbox.reopen(above: expected, db, now: now) }
        case "payload_too_large" where batch.rows.count > 1:
            limits.entries = max(1, batch.rows.count / 2)
            limits.bytes = max(1, limits.bytes / 2)
        case "payload_too_large", "invalid_json", "invalid_request":
            guard batch.rows.count > 1 else {
                return try await write { [map] db, now in
                    try PushAnswer(map, db, now: now).reject(batch.rows[0], problem)
                }
            }
            // one of them makes the body unreadable: single pushes find it
            limits.entries = 1
        default: throw Stop.blocked(.refused(problem))
        }
    }

    /// Reads the outcomes of accepted mutations by pushing them again: the gateway returns their states.
    func recheck() async throws {
        try await askAfterStopped()
        guard isRecheckDue else { return }
        var (after, isOpen, hasChanged): (Int64, Bool, Bool) = (0, false, false)
        while let batch = try await write({ [after, limits] db, _ in try PushBatch.open(after: after, limits, db) }) {
            after = batch.rows.last?.sequence ?? .max
            switch try await send(GatewayRequest(method: "POST", path: "/v1/mutations", body: batch.body)) {
            case .ok(let answer):
                try await apply(answer, to: batch)
                let statuses = (answer["results"]?.array ?? []).compactMap(MutationResult.init).map(\.status)
                isOpen = isOpen || statuses.contains { $0.isOpen }
                hasChanged = hasChanged || statuses.contains { !$0.isOpen }
            case .refused(let problem) where problem.code == "payload_too_large" && batch.rows.count > 1:
                limits.entries = max(1, batch.rows.count / 2)
                after = (batch.rows.first?.sequence ?? 1) - 1
            case .refused(let problem): throw Stop.blocked(.refused(problem))
            }
        }
        if hasChanged { isPullWanted = true }
        noteRecheck(isOpen: isOpen, hasChanged: hasChanged)
    }

    /// Asks after what waits for a decision: it may have been made elsewhere, by an operator or on another phone. By
    /// reading, for a push would run what the gateway no longer knows.
    private func askAfterStopped() async throws {
        guard isStoppedDue else { return }
        stoppedAskedAt = .now
        for id in try await write({ db, _ in try FailedWrite.someThatWereTaken(db) }) {
            guard case .ok(let answer) = try await send(GatewayRequest(path: "/v1/mutations/\(id.wire)")),
                let result = MutationResult(answer), result.id == id, ![.failed, .conflict].contains(result.status)
            else { continue }
            try await write { [map] db, now in try PushAnswer(map, db, now: now).apply(result) }
            isPullWanted = true
            noteSettled(id)
        }
    }

    /// What was decided about one may free, or end, others.
    private func noteSettled(_ id: UUID) {
        status.update { status in
            if case .queue(_, let holding) = status.blockedBy, holding.contains(id) { status.blockedBy = nil }
        }
    }
}
