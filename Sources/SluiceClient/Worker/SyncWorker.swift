import Foundation
import GRDB

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends writes to the gateway and pulls changes to the phone. The work is done in turns; a turn consists of several
/// stages.
actor SyncWorker {
    private enum Stage: CaseIterable { case register, settle, push, recheck, pull }

    /// The gateway's response to a request.
    enum Answer {
        case ok(JSON)
        case refused(Problem)
    }

    /// The reason why a stage of a turn ended early.
    enum Stop: Error {
        case again(TransientError)
        case blocked(SyncStatus.Blocker)
        /// Another process now has the lease.
        case lostFlight
        /// The user has signed out of the database.
        case signedOut
        /// The user was erased at the gateway, and the database has been wiped.
        case erased(Problem)
    }

    let database: any DatabaseWriter
    let map: EntityMap
    let gateway: GatewayClient
    let configuration: SluiceClient.Configuration
    let status: StatusHub
    let bell: WakeSignal
    let flight: SyncLease
    /// The device id of the database when the client was created.
    ///
    /// After a sign-out, the database has no device id, or a device id of another user.
    let device: UUID
    private let captured: CapturedRows
    /// The limits of a push. They are reduced after a 413.
    var limits: PushBatch.Limits
    var hasRegistered = false
    /// Whether discards are being repeated after a refused cursor. If a deadline interrupts the repetition, the next
    /// turn sends only the remaining discards.
    var isRepeatingDiscards = false
    /// The back-off after a missing response, a response of another server, or a response that stops all stages.
    private var outage = BackOff()
    /// The back-offs of the stages that failed while the gateway answered requests of other stages.
    private var setbacks: [Stage: BackOff] = [:]
    private var stage = Stage.register
    /// Whether the gateway has answered a request of the present stage.
    private var isAnswered = false
    /// Whether a deadline interrupted the check of open mutations in the last turn. If so, the next turn pulls before
    /// the check, so that a long check does not delay changes.
    private var isPullFirst = false
    /// Whether the feed is known to have changes.
    var isPullRequested = true
    private var pulledAt: ContinuousClock.Instant?
    private static let firstRecheck = Duration.milliseconds(250)
    /// The pause between requests for the states of accepted mutations. It grows while no state changes.
    private var recheckPause = SyncWorker.firstRecheck
    private var recheckedAt: ContinuousClock.Instant?
    /// The number of the last mutation that an unfinished check has covered. The next check continues after this
    /// number.
    var recheckedUpTo: Int64 = 0
    /// The start of the turn. A check is due if its time is not after this start. So only a later turn checks the
    /// mutations that a push of this turn leaves open, even if this turn takes long.
    private(set) var turnBegan = ContinuousClock.now
    /// The start of the turn in which the gateway last returned the state of the user's queue.
    var queueNotedAt: ContinuousClock.Instant?
    private var reopenedInTurn: ContinuousClock.Instant?
    private var renumbered: (turn: ContinuousClock.Instant?, count: Int) = (nil, 0)
    private var prunedAt: ContinuousClock.Instant?
    /// The time of the last request for writes that wait for a decision. The decision may be made elsewhere: by an
    /// operator, on another device, or on this device before the device was restored.
    var stoppedCheckedAt: ContinuousClock.Instant?
    /// The time between two of these requests.
    static let stoppedInterval = Duration.seconds(900)
    /// Whether another device may have a write that needs a decision.
    var isOthersCheckRequested = false
    /// The time at which the lease was last taken or renewed.
    private var flightTakenAt: ContinuousClock.Instant?
    /// The gateway's problem when the user was erased there.
    private var erasure: Problem?
    private var isBusy = false
    private var waiters: [Promise<Void>] = []

    init(
        database: any DatabaseWriter,
        map: EntityMap,
        gateway: GatewayClient,
        configuration: SluiceClient.Configuration,
        status: StatusHub,
        bell: WakeSignal,
        device: UUID,
        captured: CapturedRows
    ) {
        self.device = device
        self.captured = captured
        self.database = database
        self.map = map
        self.gateway = gateway
        self.configuration = configuration
        self.status = status
        self.bell = bell
        limits = configuration.limits
        flight = SyncLease(timeout: configuration.totalTimeout)
    }

    // MARK: - Running

    /// Runs turns in sequence, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            let pause = await turn()
            if Task.isCancelled { return }
            status.update { $0.nextAttempt = self.configuration.now().addingTimeInterval(pause.seconds) }
            await bell.wait(atMost: pause)
            // new writes ring the bell, but do not shorten the pause of an outage
            while let pause = hold, !Task.isCancelled { await bell.wait(atMost: pause) }
        }
    }

    /// Runs turns until nothing is left to do, or until the deadline.
    func runOnce(until deadline: ContinuousClock.Instant) async {
        endBackOff()
        while !Task.isCancelled {
            let pause = await turn()
            // another attempt would have the same result until an action removes the cause
            if status.status.phase == .blocked, !status.status.isQueueHeld { return }
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero, await hasWork() else { return }
            await bell.wait(atMost: min(pause, left))
        }
    }

    private func hasWork() async -> Bool {
        if isPullRequested { return true }
        // do not wait for writes in a stopped queue, because a decision or an upstream may take a long time
        let isQueueHeld = status.status.isQueueHeld
        let hasWork = try? await database.read { db in
            if try PushBatch.isAnyToSend(db) { return true }
            let statuses = isQueueHeld ? "'sent'" : "'sent', 'pending', 'in_flight'"
            return try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM sluice_intents)
                        OR EXISTS (SELECT 1 FROM sluice_captured WHERE problem IS NULL)
                        OR EXISTS (SELECT 1 FROM sluice_mutations WHERE status IN (\(statuses)))
                    """
            ) ?? false
        }
        return hasWork ?? false
    }

    func requestPull() { isPullRequested = true }

    /// Attempts everything again, regardless of earlier failures.
    func endBackOff() {
        outage = BackOff()
        setbacks = [:]
        requestEverything()
    }

    /// Ends the back-off after failures, if there were failures.
    ///
    /// - Returns: whether there was a back-off.
    func endOutage() -> Bool {
        guard outage.failures > 0 || !setbacks.isEmpty else { return false }
        endBackOff()
        return true
    }

    /// The time for which no request may be sent.
    private var hold: Duration? {
        ([outage] + setbacks.values.filter(\.isRequested)).compactMap(\.remaining).max()
    }

    /// Records a success of the present stage. The next failure of this stage begins a new outage.
    func noteProgress() {
        guard setbacks.removeValue(forKey: stage) != nil else { return }
        // the gateway is available again, most likely for the other stages as well
        for stage in setbacks.keys { setbacks[stage]?.end() }
    }

    /// Requests the states of all accepted mutations immediately.
    func requestEverything() {
        isPullRequested = true
        recheckedAt = nil
        recheckPause = Self.firstRecheck
        stoppedCheckedAt = nil
    }

    /// Runs one turn: a push, a pull and their related requests.
    ///
    /// - Returns: the time to wait before the next turn, unless the bell rings earlier.
    func turn() async -> Duration {
        do { try await enter() } catch { return .zero }
        defer { leave() }
        if let pause = hold { return pause }
        turnBegan = .now
        do {
            guard try await takeFlight() else {
                status.update { $0.phase = .elsewhere }
                return .seconds(5)
            }
            let pause = await stages()
            // the lease is released in a separate task, because the present task may have been cancelled
            await Task { try? await write { [flight] db, _ in try flight.release(db) } }.value
            return pause
        } catch is CancellationError {
            return .zero
        } catch let stop as Stop {
            return end(with: stop)
        } catch {
            // the app's database may be suspended, locked by another process, or full
            return end(with: .again(TransientError(text: "\(error)")))
        }
    }

    private func stages() async -> Duration {
        // a failed stage does not delay the next stage, so that a write that fails repeatedly does not stop pulls
        let order = isPullFirst ? [.register, .settle, .push, .pull, .recheck] : Stage.allCases
        isPullFirst = false
        for stage in order where setbacks[stage]?.remaining == nil {
            self.stage = stage
            isAnswered = false
            do {
                switch stage {
                case .register: try await register()
                case .settle: try await settle()
                case .push: try await push()
                case .recheck: try await recheck()
                case .pull: try await pull()
                }
                // a stage that had no request to send does not show that the gateway is available
                if isAnswered { noteProgress() } else { setbacks[stage] = nil }
            } catch let stop as Stop {
                if stop.isForAll { return end(with: stop) }
                if case .again(let trouble) = stop { noteSetback(trouble) }
            } catch is CancellationError {
                isPullFirst = stage == .recheck
                return .zero
            } catch {
                noteSetback(TransientError(text: "\(error)"))
            }
        }
        if let cause = Stage.allCases.compactMap({ setbacks[$0]?.cause }).first {
            show(cause)
            return nextTurn()
        }
        status.update { status in
            status.phase = .idle
            status.lastError = nil
            guard status.isQueueHeld else { return status.blockedBy = nil }
            if status.blockedBy?.needsDecision == true { status.phase = .blocked }
        }
        await prune()
        return nextTurn()
    }

    private func noteSetback(_ trouble: TransientError) {
        setbacks[stage, default: BackOff()].fail(trouble)
    }

    private func show(_ trouble: TransientError) {
        status.update { status in
            status.phase = trouble.isOffline ? .offline : .waiting
            status.lastError = trouble.text
        }
    }

    private func nextTurn() -> Duration {
        let now = ContinuousClock.now
        var pauses = setbacks.values.map { $0.remaining ?? .zero }
        if setbacks[.pull] == nil {
            pauses.append(now.duration(to: (pulledAt ?? now).advanced(by: configuration.pullInterval)))
        }
        if setbacks[.recheck] == nil, let recheckedAt {
            pauses.append(now.duration(to: recheckedAt.advanced(by: recheckPause)))
        }
        return hold ?? max(.milliseconds(50), pauses.min() ?? configuration.pullInterval)
    }

    private func end(with stop: Stop) -> Duration {
        switch stop {
        case .again(let trouble):
            outage.fail(trouble)
            show(trouble)
            return outage.remaining ?? .zero
        case .blocked(let blocker):
            outage.fail(least: 30)
            status.update { status in
                status.phase = .blocked
                status.blockedBy = blocker
                status.lastError = "\(blocker)"
            }
            // an action is required; after the action, ``SluiceClient/resume()`` retries immediately
            return outage.remaining ?? .zero
        case .lostFlight:
            status.update { $0.phase = .elsewhere }
            return .seconds(5)
        case .signedOut:
            status.update { [erasure] status in
                status = SyncStatus()
                status.phase = .blocked
                status.blockedBy = erasure.map { .erased($0) } ?? .signedOut
            }
            return .seconds(86_400)
        case .erased(let problem):
            erasure = problem
            return end(with: .signedOut)
        }
    }

    /// Waits until no other turn runs. Turns run in the order of the calls.
    private func enter() async throws {
        if !isBusy {
            isBusy = true
            return
        }
        let turn = Promise<Void>()
        waiters.append(turn)
        do {
            try await turn.value
        } catch {
            // if this task was cancelled at the moment when it got the turn, the next task gets the turn
            if !turn.set(.failure(error)) { leave() }
            throw error
        }
    }

    private func leave() {
        while !waiters.isEmpty {
            if waiters.removeFirst().set(.success(())) { return }
        }
        isBusy = false
    }

    // MARK: - What every stage needs

    /// - Throws: ``Stop/signedOut``, before anything is written, if the database no longer belongs to the user.
    func write<Value: Sendable>(_ body: @escaping @Sendable (Database, Date) throws -> Value) async throws -> Value {
        let now = configuration.now()
        return try await database.write { [device, captured] db in
            guard try Device.known(db) == device else { throw Stop.signedOut }
            return try captured.applying(db, now: now) { try body(db, now) }
        }
    }

    /// Sends a request, if this client still has the lease.
    ///
    /// - Returns: the response, or a problem with the request itself.
    /// - Throws: ``Stop`` for everything else.
    func send(_ request: GatewayRequest) async throws -> Answer {
        // a lease that was renewed within the last ten seconds need not be checked
        if flightTakenAt.map({ $0.advanced(by: .seconds(10)) < .now }) ?? true, try await !takeFlight() {
            throw Stop.lostFlight
        }
        let reply: Reply
        do {
            reply = try await gateway.send(request)
        } catch SluiceError.otherAccount {
            throw Stop.blocked(.otherAccount)
        } catch SluiceError.signedOut {
            throw Stop.signedOut
        }
        switch reply {
        case .ok(let json):
            noteAnswer()
            return .ok(json)
        case .again(let trouble): throw Stop.again(trouble)
        case .unauthorized(let trouble): throw Stop.blocked(.token(trouble.text))
        case .refused(let problem):
            if problem.isErasure { throw try await wiped(for: problem) }
            if problem.status == 403 { throw Stop.blocked(.refused(problem)) }
            noteAnswer()
            return .refused(problem)
        }
    }

    private func noteAnswer() {
        outage = BackOff()
        isAnswered = true
    }

    /// Deletes the user's data from the phone, as a sign-out does. Pending writes are deleted, too, because the gateway
    /// no longer accepts writes of this user.
    private func wiped(for problem: Problem) async throws -> Stop {
        try await write { [map] db, _ in try LibraryTables.wipe(map, db) }
        await gateway.tokens.forget()
        return .erased(problem)
    }

    private func takeFlight() async throws -> Bool {
        let isTaken = try await write { [flight] db, now in try flight.take(db, now: now) }
        flightTakenAt = isTaken ? .now : nil
        return isTaken
    }

    /// Requests a check of writes that the user's other devices have made, because one of these writes needs a decision
    /// or was settled.
    func requestOthersCheck() { isOthersCheckRequested = true }

    func beginPull() { isPullRequested = false }

    /// Returns whether lost mutations may be reopened in this turn, which is allowed once in a turn.
    func mayReopen() -> Bool {
        defer { reopenedInTurn = turnBegan }
        return reopenedInTurn != turnBegan
    }

    /// Returns whether writes may be sent again because another phone has used their numbers, which is allowed 20 times
    /// in a turn.
    func mayRenumber() -> Bool {
        renumbered.turn != turnBegan || renumbered.count < 20
    }

    func noteRenumbering() {
        renumbered = (turnBegan, renumbered.turn == turnBegan ? renumbered.count + 1 : 1)
    }

    func notePulled() { pulledAt = ContinuousClock.now }

    var isPullDue: Bool {
        isPullRequested || pulledAt.map { $0.advanced(by: configuration.pullInterval) <= ContinuousClock.now } ?? true
    }

    var isRecheckDue: Bool {
        recheckedAt.map { $0.advanced(by: recheckPause) <= turnBegan } ?? true
    }

    /// Whether the states of writes that wait for a decision must be checked. This is the case every quarter of an
    /// hour, whenever all mutations are checked, and if another device may have such a write.
    var isStoppedDue: Bool {
        isOthersCheckRequested || stoppedCheckedAt.map { $0.advanced(by: Self.stoppedInterval) <= turnBegan } ?? true
    }

    /// - Parameters:
    ///   - isOpen: whether any mutation still requires a check.
    ///   - hasChanged: whether the last check found a change.
    func noteRecheck(isOpen: Bool, hasChanged: Bool) {
        recheckPause = hasChanged || !isOpen ? Self.firstRecheck : min(recheckPause * 2, .seconds(60))
        recheckedAt = isOpen ? ContinuousClock.now : nil
    }

    /// Schedules an early check of the mutations that a push left open.
    func expectOutcomes() {
        recheckPause = Self.firstRecheck
        recheckedAt = ContinuousClock.now
        // a check of stopped writes is not needed, because the response to the push contains the state of the queue
        stoppedCheckedAt = stoppedCheckedAt ?? .now
    }

    private func prune() async {
        let now = ContinuousClock.now
        guard prunedAt.map({ $0.advanced(by: .seconds(3_600)) <= now }) ?? true else { return }
        prunedAt = now
        let keep = configuration.keep.seconds
        _ = try? await write { db, now in try Outbox.prune(endedBefore: now.addingTimeInterval(-keep), db) }
    }
}

extension SyncWorker.Stop {
    /// Whether the other stages of the turn would end for the same reason.
    var isForAll: Bool {
        switch self {
        case .again(let trouble): trouble.isOffline
        case .blocked, .lostFlight, .signedOut, .erased: true
        }
    }
}

extension Duration {
    /// The duration, limited to the range from zero to a hundred years. Adding a longer duration to a clock's instant
    /// would trap.
    var clamped: Duration { max(.zero, min(self, .seconds(100 * 365 * 86_400))) }

    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
