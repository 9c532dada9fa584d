import Logging
import Postgres
import SyncModel
import SyncStore
import Synchronization

/// A worker's lease of a source. The run follows the database's log until it ends.
final class ReplicationRun: Sendable {
    /// The reason why the run ended.
    enum End: Error {
        /// The gateway is stopping, or other sources wait for the place.
        case released
        /// Another worker has the source, or an operator changed it.
        case lost
        case failed(SourceFailure)
    }

    struct Parts: Sendable {
        let sources: SourceStore
        let ingest: IngestCommit
        let connector: ReplicationConnector
        let configuration: ReplicationWorker.Configuration
        let metrics: SourceMetrics
        let logger: Logger
        /// Called with the slot's state after each check.
        let watched: @Sendable (SlotReport) -> Void
        /// Whether the worker must release the source.
        let ends: @Sendable () -> Bool
    }

    private struct Progress {
        var state: ReplicationState?
        /// The end of the last transaction whose events are durable.
        var reached = LogPosition.zero
        /// The position in the stored state. It is never higher than ``reached``.
        var written = LogPosition.zero
        /// Whether events arrived since the state was written.
        var hasEvents = false
        /// Whether a part of the state other than the position has changed, and was not written yet.
        var isChange = false
        /// Whether a success of the source was recorded during this lease.
        var isProven = false
        /// Whether a batch is being submitted.
        var isBusy = false
        /// Whether an attempt to submit the present batch has failed. If so, the source does not count as working.
        var isRetrying = false
        /// Whether the feed accepted a new event.
        var hasTaken = false
        var heldAt = ContinuousClock.now
        /// The last call that renews the lease or writes the state. A later call waits for it.
        var lastHold: Task<Void, any Error>?
    }

    private let claim: ClaimedSource
    private let settings: ReplicationSettings
    private let parts: Parts
    private let progress = Mutex(Progress())

    init(_ claim: ClaimedSource, _ settings: ReplicationSettings, _ parts: Parts) {
        self.claim = claim
        self.settings = settings
        self.parts = parts
    }

    private var configuration: ReplicationWorker.Configuration { parts.configuration }
    private var advice: ReplicationAdvice { ReplicationAdvice(settings: settings) }

    /// Whether a success was recorded during this lease. If so, earlier failures of the source no longer count.
    var isProven: Bool { progress.withLock { $0.isProven } }

    func run() async -> End {
        await withTaskGroup(of: End.self) { group in
            group.addTask { await self.ending { try await self.follow() } }
            group.addTask { await self.ending { try await self.hold() } }
            let end = await group.next() ?? .released
            group.cancelAll()
            await group.waitForAll()
            return end
        }
    }

    private func ending(_ body: () async throws -> Void) async -> End {
        do {
            try await body()
            return .released
        } catch let end as End {
            return end
        } catch let failure as SourceFailure {
            return .failed(failure)
        } catch let error as PostgresError {
            return .failed(advice.failure(error))
        } catch let problem as Problem {
            return .failed(SourceFailure(SourceStoreMessages.sentence(problem.detail), isFatal: false))
        } catch {
            return .failed(SourceFailure("The source was stopped: \(error)", isFatal: false))
        }
    }

    // MARK: - Holding

    /// Renews this worker's lease if no other call has renewed it recently. At intervals, checks that the worker still
    /// has the source.
    private func hold() async throws {
        var checkedAt = ContinuousClock.now
        while true {
            if parts.ends() { throw End.released }
            // checked at intervals and not only with new events, because a quiet database may send nothing for a long
            // time
            if checkedAt.duration(to: .now) >= configuration.heldInterval {
                try await checkHeld()
                checkedAt = .now
            }
            let isDue = progress.withLock { $0.heldAt.duration(to: .now) >= .seconds(SourceStore.renewSeconds) }
            if isDue { try await hold(writing: false) }
            try await Task.sleep(for: configuration.tick)
        }
    }

    /// Ends the run if this worker has lost the source. The run then ingests no further events.
    private func checkHeld() async throws {
        let isHeld: Bool
        do throws(Problem) {
            isHeld = try await parts.sources.isHeld(claim)
        } catch {
            // the gateway's database is unavailable, and the run continues until the lease ends
            return
        }
        guard isHeld else { throw End.lost }
    }

    /// Renews the lease. Also writes this run's state if `writing` is true, or if a success is recorded.
    ///
    /// A success is recorded if the durable position has advanced since the last write. Without such an advance, a
    /// success is recorded only if no attempt to submit the present batch has failed, and either the feed has accepted
    /// an event or no batch is being submitted. If `writing` is false, a further condition applies: a success was
    /// already recorded during this lease.
    ///
    /// Calls run one after another, because a call with an older state must not write after a call with a newer one. A
    /// call is not cancelled with the run, so that the run's last state is written.
    private func hold(writing: Bool) async throws {
        let hold = progress.withLock { progress in
            let last = progress.lastHold
            let next = Task {
                _ = await last?.result
                try await holdNow(writing: writing)
            }
            progress.lastHold = next
            return next
        }
        try await hold.value
    }

    private func holdNow(writing: Bool) async throws {
        let now = progress.withLock { $0 }
        var state = now.state
        if now.reached > .zero { state?.confirmed = now.reached.description }
        let isSuccess =
            (writing || now.isProven)
            && (now.reached > now.written || !now.isRetrying && (now.hasTaken || !now.isBusy))
        let until: Timestamp?
        do throws(Problem) {
            if isSuccess, let state {
                until = try await parts.sources.progress(claim, state: state.json, hasEvents: now.hasEvents)
            } else if writing, let state {
                until = try await parts.sources.record(claim, state: state.json)
            } else {
                until = try await parts.sources.renew(claim)
            }
        } catch {
            // the gateway's database is unavailable, and the run may continue until the lease ends
            guard now.heldAt.duration(to: .now) < .seconds(SourceStore.leaseSeconds) else { throw End.lost }
            return
        }
        guard until != nil else { throw End.lost }
        progress.withLock { progress in
            progress.heldAt = .now
            if writing || isSuccess, state != nil {
                if isSuccess { progress.isProven = true }
                progress.written = max(progress.written, now.reached)
                if now.hasEvents, progress.reached == now.reached { progress.hasEvents = false }
                if progress.state == now.state { progress.isChange = false }
                progress.state?.confirmed = state?.confirmed ?? ""
            }
        }
    }

    // MARK: - Following

    private func follow() async throws {
        guard let secret = claim.secret else { throw SourceFailure("The source has no secret: the database's URI.") }
        let uri: DatabaseURI
        do throws(DatabaseURI.Malformed) {
            uri = try DatabaseURI(secret)
        } catch {
            throw SourceFailure(SourceStoreMessages.sentence(error.reason))
        }
        let database = try await parts.connector.configuration(uri)
        let connection = try await Connection.open(database)
        defer { connection.close() }
        let inspection = SlotInspection(connection: connection, settings: settings)
        let before = claim.state.flatMap { ReplicationState($0) }
        let (server, slot, finding, lack) = try await prepare(inspection, before)
        var state = try begin(before, server, slot)
        state.report = slot.report
        state.scope = finding.scope
        state.warning = inspection.warning(of: finding.publication)
        if let notice = rewrite(finding) { state.lastRewrite = notice }
        // the state is written before the slot is used, so that the source stops if the slot is lost later
        guard try await parts.sources.record(claim, state: state.json) != nil else { throw End.lost }
        let begun = state
        progress.withLock { $0.state = begun }
        if let warning = state.warning {
            parts.logger.warning(
                "A source of a database works with a defect",
                metadata: metadata(["reason": "\(warning)"])
            )
        }
        var source = ReplicationStream.Source(slot: settings.slot, publications: [settings.publication])
        // the stream must not confirm positions without changes by itself, because the slot must never be ahead of the
        // stored state
        source.confirmsIdle = false
        let stream = try await ReplicationStream.open(database, source)
        parts.logger.info("Replication of a database started", metadata: metadata(["from": "\(begun.confirmed)"]))
        let outcome = await withTaskGroup(of: End.self) { group in
            group.addTask { await self.ending { try await self.read(stream, inspection, base: begun.base) } }
            group.addTask { await self.ending { try await self.confirm(stream) } }
            group.addTask { await self.ending { try await self.watch(inspection, lack) } }
            let end = await group.next() ?? .released
            group.cancelAll()
            await group.waitForAll()
            return end
        }
        // the position of durable events is confirmed, except if another worker has the source
        if case .lost = outcome {} else { await confirmLast(stream) }
        await stream.closeAndWait()
        throw outcome
    }

    /// Checks everything before the log is read. If changes are missing in the log, the source does not start until an
    /// operator runs it from the beginning.
    private func prepare(
        _ inspection: SlotInspection,
        _ before: ReplicationState?
    ) async throws -> (SlotInspection.Server, SlotInspection.Slot, SlotInspection.Finding, SlotInspection.Defect?) {
        let gap = before?.gap
        do {
            let prepared = try await inspection.prepare(before, now: configuration.now, seen: parts.watched)
            guard let gap else { return prepared }
            throw SlotInspection.Loss(reason: gap)
        } catch let loss as SlotInspection.Loss {
            if gap == nil, var state = before {
                state.gap = loss.reason
                guard try await parts.sources.record(claim, state: state.json) != nil else { throw End.lost }
            }
            throw advice.gap(loss.reason, after: loss.failure)
        } catch let failure as SourceFailure where failure.isFatal {
            throw gap.map { advice.gap($0, after: failure) } ?? failure
        }
    }

    /// Returns the state from which the run continues.
    ///
    /// Without a stored state, the log is read from a new beginning. Versions that are made from the log's positions
    /// must exceed all earlier versions. Therefore the nanoseconds since 1970 are added to the positions, because this
    /// number grows faster than positions.
    ///
    /// - Throws: an error if the log between the stored position and the slot can no longer be read.
    private func begin(
        _ before: ReplicationState?,
        _ server: SlotInspection.Server,
        _ slot: SlotInspection.Slot
    ) throws(SourceFailure) -> ReplicationState {
        let confirmed = slot.confirmed ?? .zero
        if var state = before {
            let known = LogPosition(state.confirmed) ?? .zero
            if let failure = advice.failure(of: state, known, on: server, confirmed) { throw failure }
            if state.timeline == nil {
                // an older gateway could confirm positions without changes before it stored them, so the slot may be
                // ahead
                state.confirmed = max(known, confirmed).description
            } else if state.timeline != server.timeline {
                parts.logger.warning(
                    "A database has a new timeline, as after a failover",
                    metadata: metadata(["timeline": "\(server.timeline)"])
                )
            }
            (state.slot, state.database, state.timeline) = (settings.slot, server.database, server.timeline)
            return state
        }
        let base = configuration.now().microseconds.multipliedReportingOverflow(by: 1_000)
        var state = ReplicationState(
            slot: settings.slot,
            system: server.system,
            base: base.overflow ? 0 : base.partialValue,
            confirmed: confirmed.description
        )
        (state.database, state.timeline) = (server.database, server.timeline)
        return state
    }

    private func read(_ stream: ReplicationStream, _ inspection: SlotInspection, base: Int64) async throws {
        var reader = LogReader(settings, base: base, limits: configuration.limits)
        var types: [UInt32: UInt32] = [:]
        var fold = TransactionFold()
        var batch = Batch()
        while true {
            for entry in try await stream.next() {
                let position = entry.position.bytes
                switch entry.message {
                case .begin(_, let at):
                    reader.begin(at: Timestamp(microseconds: at))
                    fold.begin()
                case .relation(let relation):
                    do {
                        try await read(relation, &reader, &types, inspection)
                    } catch let failure as SourceFailure {
                        // the changes so far are submitted first: they were read with the present settings, and might
                        // not fit corrected settings
                        try await flush(&fold, into: &batch, isFinal: false)
                        try await take(&batch)
                        throw failure
                    }
                case .insertion(let table, let new):
                    batch.add(reader.insertion(into: table, new.map(ColumnValue.init), at: position), &fold)
                case .row(let table, let old, let new):
                    let (old, new) = (old?.map(ColumnValue.init), new.map(ColumnValue.init))
                    batch.add(reader.events(of: table, old: old, new: new, at: position), &fold)
                case .deletion(let table, let old):
                    batch.add(reader.events(of: table, old: old.map(ColumnValue.init), new: nil, at: position), &fold)
                case .truncation(let tables): record(truncated: tables.compactMap { reader.name(of: $0) })
                case .commit(let end):
                    try await flush(&fold, into: &batch, isFinal: true)
                    batch.end = end
                case .other: break
                }
                if fold.isFull { try await flush(&fold, into: &batch, isFinal: false) }
                if batch.events.count >= configuration.batch || batch.bytes >= Self.batchBytes {
                    try await take(&batch)
                }
            }
            parts.metrics.events(.postgres, [], ignored: reader.takeIgnored())
            try await take(&batch)
        }
    }

    /// Moves a transaction's held events into the batch.
    private func flush(_ fold: inout TransactionFold, into batch: inout Batch, isFinal: Bool) async throws {
        guard !fold.isEmpty else { return }
        let unknown = fold.unknown(isFinal: isFinal)
        var living: Set<EntityKey> = []
        if !unknown.isEmpty {
            // submits the events of earlier transactions first, so that the feed has the state before this transaction
            try await take(&batch)
            living = try await parts.ingest.living(unknown, of: claim.key.organization)
        }
        for event in fold.take(living: living) { batch.add(event) }
    }

    private func read(
        _ relation: ReplicationRelation,
        _ reader: inout LogReader,
        _ types: inout [UInt32: UInt32],
        _ inspection: SlotInspection
    ) async throws {
        let name = QualifiedName(schema: relation.schema, name: relation.name)
        guard reader.isFollowed(relation.id, name) else { return }
        let unknown = relation.columns.map(\.type).filter { $0 >= 16_384 && types[$0] == nil }
        if !unknown.isEmpty { types.merge(try await inspection.builtIn(unknown)) { $1 } }
        let known = types
        try reader.relation(
            relation.id,
            name,
            relation.columns.map { column in
                let type = column.type < 16_384 ? column.type : known[column.type] ?? 25
                return FollowedColumn(name: column.name, type: type, isKey: column.isKey)
            }
        )
    }

    // MARK: - Taking

    private static let batchBytes = 1 << 20

    /// Events that are submitted together.
    private struct Batch {
        var events: [LoggedEvent] = []
        var bytes = 0
        /// The end of the last transaction whose events are all in this batch or in earlier batches.
        var end: LogPosition?

        mutating func add(_ event: LoggedEvent) {
            events.append(event)
            bytes += 200 + event.documentBytes
        }

        /// Adds each event to the batch or to the transaction's fold.
        ///
        /// An event goes to the fold if the fold tracks the event's row, or if the fold already holds events.
        mutating func add(_ new: [LoggedEvent], _ fold: inout TransactionFold) {
            for event in new {
                if fold.isEmpty, !event.isFollowedByRow { add(event) } else { fold.add(event) }
            }
        }
    }

    /// Submits a batch, and waits until its events are durable.
    private func take(_ batch: inout Batch) async throws {
        defer { batch = Batch() }
        let events = batch.events
        if !events.isEmpty {
            var limits = SourceIntake.Limits(events: configuration.batch, bytes: Self.batchBytes)
            limits.attempts = configuration.attempts
            limits.pause = configuration.retryPause
            let intake = SourceIntake(
                ingest: parts.ingest,
                bearer: claim.bearer,
                kind: .postgres,
                metrics: parts.metrics,
                limits: limits,
                isEnding: parts.ends
            )
            progress.withLock { $0.isBusy = true }
            let outcome = await intake.take(events.map(\.entry)) { range, verdicts in
                guard let verdicts else { return progress.withLock { $0.isRetrying = true } }
                let isNew = verdicts.contains { $0.result != .duplicate }
                progress.withLock { progress in
                    progress.isRetrying = false
                    if isNew { progress.hasTaken = true }
                }
                record(refused: verdicts, events[range])
                record(stale: verdicts, events[range])
            }
            switch outcome {
            case .taken: progress.withLock { $0.isBusy = false }
            case .postponed(let range, let reason):
                throw advice.postponed(events[range.lowerBound], reason)
            case .impossible(let index, let problem):
                throw advice.impossible(events[index], problem.detail)
            case .rejected(let problem): throw problem
            case .interrupted: throw End.released
            }
        }
        let end = batch.end
        progress.withLock { progress in
            if let end { progress.reached = max(progress.reached, end) }
            if !events.isEmpty { progress.hasEvents = true }
        }
    }

    // MARK: - Confirming

    /// At intervals, writes the position that this run has reached, and then confirms this position to the server.
    private func confirm(_ stream: ReplicationStream) async throws {
        let begun = ContinuousClock.now
        var confirmed = LogPosition.zero
        var idleAt = begun
        while true {
            if let idle = stream.idlePosition,
                idle.isRequested || idleAt.duration(to: .now) >= configuration.watchInterval
            {
                idleAt = .now
                progress.withLock { $0.reached = max($0.reached, idle.position) }
            }
            let now = progress.withLock { $0 }
            // the first success is recorded after some time, because a run that ends immediately does not show that the
            // source works
            let isFirst =
                !now.isProven && begun.duration(to: .now) >= configuration.proof && !now.isRetrying
                && (now.hasTaken || !now.isBusy)
            if now.reached > now.written || now.isChange || isFirst {
                try await hold(writing: true)
            }
            let written = progress.withLock { $0.written }
            if written > confirmed {
                stream.confirm(written)
                confirmed = written
            }
            try await Task.sleep(for: configuration.tick)
        }
    }

    private func confirmLast(_ stream: ReplicationStream) async {
        let now = progress.withLock { $0 }
        guard now.reached > now.written || now.isChange else { return }
        try? await hold(writing: true)
        stream.confirm(progress.withLock { $0.written })
    }

    /// Checks the slot, the publication and the tables at intervals.
    ///
    /// A defect of the tables ends the run only after the log before the defect was read.
    private func watch(_ inspection: SlotInspection, _ first: SlotInspection.Defect?) async throws {
        var lack = first
        var notedAt = ContinuousClock.now
        while true {
            try await Task.sleep(for: lack == nil ? configuration.watchInterval : configuration.tick)
            guard let slot = try await inspection.slot(now: configuration.now) else {
                throw SourceFailure("Slot '\(settings.slot)' no longer exists.")
            }
            if notedAt.duration(to: .now) >= configuration.watchInterval {
                record(slot.report)
                notedAt = .now
                lack = try await check(inspection, lack)
            }
            try SlotInspection.check(slot, settings)
            if let lack, let confirmed = slot.confirmed, confirmed >= lack.end { throw lack.failure }
        }
    }

    /// Checks the publication and the tables, and compares them with the last check.
    private func check(
        _ inspection: SlotInspection,
        _ lack: SlotInspection.Defect?
    ) async throws -> SlotInspection.Defect? {
        let known = progress.withLock { $0.state?.scope }
        let finding: SlotInspection.Finding
        do {
            finding = try await inspection.check(since: known, isRunning: true)
        } catch let loss as SlotInspection.Loss {
            progress.withLock { progress in
                progress.state?.gap = loss.reason
                progress.isChange = true
            }
            try await hold(writing: true)
            throw advice.gap(loss.reason, after: loss.failure)
        }
        record(warning: inspection.warning(of: finding.publication))
        let rewrite = rewrite(finding)
        progress.withLock { progress in
            guard progress.state?.scope != finding.scope else { return }
            progress.state?.scope = finding.scope
            if let rewrite { progress.state?.lastRewrite = rewrite }
            progress.isChange = true
        }
        guard let failure = finding.failure else { return nil }
        if let lack { return SlotInspection.Defect(failure: failure, end: lack.end) }
        return SlotInspection.Defect(failure: failure, end: try await inspection.logEnd())
    }

    // MARK: - Notes

    private func record(_ report: SlotReport) {
        progress.withLock { progress in
            progress.state?.report = report
            if progress.isProven { progress.isChange = true }
        }
        parts.watched(report)
    }

    private func record(warning: String?) {
        progress.withLock { progress in
            guard progress.state?.warning != warning else { return }
            progress.state?.warning = warning
            progress.isChange = true
        }
    }

    /// Logs changes that affected rows, but are not in the database's log.
    ///
    /// Returns a description for the state; nil if there are no such changes.
    private func rewrite(_ finding: SlotInspection.Finding) -> String? {
        guard !finding.rewrites.isEmpty else { return nil }
        let rewrites = finding.rewrites.joined(separator: "; ")
        parts.logger.warning(
            "Rows changed without an entry in the log",
            metadata: metadata(["reason": "\(rewrites)"])
        )
        return SourceStore.bounded("\(rewrites), \(configuration.now().rfc3339)")
    }

    private func record(truncated tables: [QualifiedName]) {
        guard !tables.isEmpty else { return }
        let names = tables.map(\.description).joined(separator: ", ")
        let moment = configuration.now().rfc3339
        progress.withLock { progress in
            progress.state?.lastTruncation = SourceStore.bounded("\(names), \(moment)")
            progress.isChange = true
        }
        parts.logger.warning("Tables were truncated, not replicated", metadata: metadata(["tables": "\(names)"]))
    }

    private func record(refused verdicts: [IngestVerdict], _ events: ArraySlice<LoggedEvent>) {
        let refused = verdicts.indices.filter { verdicts[$0].result == .refused }
        guard let last = refused.last else { return }
        let logged = events[events.startIndex + last]
        var refusal = logged.table?.description ?? "a table"
        if case .success(let event) = logged.entry.event { refusal += ", id \(event.entityID.text)" }
        refusal = SourceStore.bounded("\(refusal): \(verdicts[last].problem?.detail ?? "refused")")
        progress.withLock { progress in
            progress.state?.refused += Int64(refused.count)
            progress.state?.lastRefusal = refusal
            progress.isChange = true
        }
        let more = metadata(["count": "\(refused.count)", "reason": "\(refusal)"])
        parts.logger.warning("Rows of a database were rejected", metadata: more)
    }

    /// Counts inserted rows whose events were stale, if a table was truncated. The entities of the table's old rows
    /// still exist, and can have newer versions than the inserted rows.
    private func record(stale verdicts: [IngestVerdict], _ events: ArraySlice<LoggedEvent>) {
        let stale = zip(verdicts, events).count { $0.result == .stale && $1.startsVersions }
        guard stale > 0 else { return }
        progress.withLock { progress in
            guard progress.state?.lastTruncation != nil else { return }
            progress.state?.staleInsertions += Int64(stale)
            progress.isChange = true
        }
    }

    private func metadata(_ more: Logger.Metadata = [:]) -> Logger.Metadata {
        ReplicationWorker.metadata(claim.key, more)
    }
}

extension ColumnValue {
    init(_ value: ReplicationValue) {
        switch value {
        case .null: self = .null
        case .unchanged: self = .unchanged
        case .text(let bytes): self = .text(bytes)
        }
    }
}
