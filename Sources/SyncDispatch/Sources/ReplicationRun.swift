import Logging
import Postgres
import SyncModel
import SyncStore
import Synchronization

/// One worker's hold on one source: follows the log until something ends it.
final class ReplicationRun: Sendable {
    /// Why it ended.
    enum End: Error {
        /// The gateway ends, or others wait for the place.
        case released
        /// Another worker has the source, or an operator changed it.
        case lost
        case failed(SourceTrouble)
    }

    struct Parts: Sendable {
        let sources: SourceStore
        let ingest: IngestCommit
        let door: ReplicationDoor
        let configuration: ReplicationWorker.Configuration
        let metrics: SourceMetrics
        let logger: Logger
        /// Told how the slot is, whenever it was looked at.
        let watched: @Sendable (SlotReport) -> Void
        /// Whether the source is to be given back.
        let ends: @Sendable () -> Bool
    }

    private struct Progress {
        var state: ReplicationState?
        /// The end of the last transaction whose events are durable.
        var reached = LogPosition.zero
        /// What of it is written in the source's state.
        var written = LogPosition.zero
        /// Whether events came since the state was written.
        var hasEvents = false
        /// Whether the state says something new beside.
        var isNews = false
        /// Whether it was written that the source works.
        var isProven = false
        var heldAt = ContinuousClock.now
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

    /// Whether something was written of this hold, so that what failed before it is past.
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
        } catch let trouble as SourceTrouble {
            return .failed(trouble)
        } catch let error as PostgresError {
            return .failed(advice.trouble(error))
        } catch let problem as Problem {
            return .failed(SourceTrouble(SourceStoreWords.sentence(problem.detail), isFatal: false))
        } catch {
            return .failed(SourceTrouble("The source was given up: \(error)", isFatal: false))
        }
    }

    // MARK: - Holding

    /// Says that this worker is still there, while nothing else does.
    private func hold() async throws {
        while true {
            if parts.ends() { throw End.released }
            let isDue = progress.withLock { $0.heldAt.duration(to: .now) >= .seconds(SourceStore.renewSeconds) }
            if isDue { try await hold(writing: false) }
            try await Task.sleep(for: configuration.tick)
        }
    }

    /// Writes how far this is, or only renews the lease.
    private func hold(writing: Bool) async throws {
        let now = progress.withLock { $0 }
        var state = now.state
        if now.reached > .zero { state?.confirmed = now.reached.description }
        let until: Timestamp?
        do throws(Problem) {
            if writing || now.isProven, let state {
                until = try await parts.sources.progress(claim, state: state.json, hasEvents: now.hasEvents)
            } else {
                until = try await parts.sources.renew(claim)
            }
        } catch {
            // the gateway's database is away: there is time until the lease ends
            guard now.heldAt.duration(to: .now) < .seconds(SourceStore.leaseSeconds) else { throw End.lost }
            return
        }
        guard until != nil else { throw End.lost }
        progress.withLock { progress in
            progress.heldAt = .now
            if writing || now.isProven, state != nil {
                progress.isProven = true
                progress.written = now.reached
                if now.hasEvents, progress.reached == now.reached { progress.hasEvents = false }
                if progress.state == now.state { progress.isNews = false }
                progress.state?.confirmed = state?.confirmed ?? ""
            }
        }
    }

    // MARK: - Following

    private func follow() async throws {
        guard let secret = claim.secret else { throw SourceTrouble("The source has no secret: the database's URI.") }
        let uri: DatabaseURI
        do throws(DatabaseURI.Malformed) {
            uri = try DatabaseURI(secret)
        } catch {
            throw SourceTrouble(SourceStoreWords.sentence(error.reason))
        }
        let database = try await parts.door.configuration(uri)
        let connection = try await Connection.open(database)
        defer { connection.close() }
        let inspection = SlotInspection(connection: connection, settings: settings)
        let before = claim.state.flatMap { ReplicationState($0) }
        let (server, slot, lack) = try await inspection.prepare(before, now: configuration.now, seen: parts.watched)
        let state = begin(before, server, slot)
        progress.withLock { progress in
            progress.state = state
            progress.state?.report = slot.report
        }
        let stream = try await ReplicationStream.open(
            database,
            ReplicationStream.Source(slot: settings.slot, publications: [settings.publication])
        )
        parts.logger.info("A database's log is followed", metadata: metadata(["from": "\(state.confirmed)"]))
        let outcome = await withTaskGroup(of: End.self) { group in
            group.addTask { await self.ending { try await self.read(stream, inspection, base: state.base) } }
            group.addTask { await self.ending { try await self.confirm(stream) } }
            group.addTask { await self.ending { try await self.watch(inspection, lack) } }
            let end = await group.next() ?? .released
            group.cancelAll()
            await group.waitForAll()
            return end
        }
        // what became durable meanwhile is confirmed, unless it is another's to do
        if case .lost = outcome {} else { await confirmLast(stream) }
        await stream.closeAndWait()
        throw outcome
    }

    /// The state to go on from. Versions made of places in the log begin anew, behind all earlier ones, where the log does:
    /// nanoseconds since 1970 grow faster than logs.
    private func begin(
        _ before: ReplicationState?,
        _ server: SlotInspection.Server,
        _ slot: SlotInspection.Slot
    ) -> ReplicationState {
        let known = before.flatMap { LogPosition($0.confirmed) } ?? .zero
        if let before, before.slot == settings.slot {
            if before.system == server.system, server.end >= known { return before }
            parts.logger.warning("A database's log is another than before", metadata: metadata())
        }
        let base = configuration.now().microseconds.multipliedReportingOverflow(by: 1_000)
        return ReplicationState(
            slot: settings.slot,
            system: server.system,
            base: base.overflow ? 0 : base.partialValue,
            confirmed: (slot.confirmed ?? .zero).description
        )
    }

    private func read(_ stream: ReplicationStream, _ inspection: SlotInspection, base: Int64) async throws {
        var reader = LogReader(settings, base: base, limits: configuration.limits)
        var types: [UInt32: UInt32] = [:]
        var batch = Batch()
        while true {
            for entry in try await stream.next() {
                switch entry.message {
                case .begin(_, let at): reader.begin(at: Timestamp(microseconds: at))
                case .relation(let relation):
                    do {
                        try await read(relation, &reader, &types, inspection)
                    } catch let trouble as SourceTrouble {
                        // what came before is read by these settings, and may not fit those that mend it
                        try await take(&batch)
                        throw trouble
                    }
                case .row(let table, let old, let new):
                    let entries = reader.change(
                        of: table,
                        old: old?.map(ColumnValue.init),
                        new: new.map(ColumnValue.init),
                        at: entry.position.bytes
                    )
                    batch.add(entries, of: reader.name(of: table))
                case .deletion(let table, let old):
                    let entries = reader.change(
                        of: table,
                        old: old.map(ColumnValue.init),
                        new: nil,
                        at: entry.position.bytes
                    )
                    batch.add(entries, of: reader.name(of: table))
                case .truncation(let tables): note(truncated: tables.compactMap { reader.name(of: $0) })
                case .commit(let end): batch.end = end
                case .other: break
                }
                if batch.entries.count >= configuration.batch || batch.bytes >= Self.batchBytes {
                    try await take(&batch)
                }
            }
            parts.metrics.events(.postgres, [], ignored: reader.takeIgnored())
            try await take(&batch)
        }
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

    /// Events that are handed on together.
    private struct Batch {
        var entries: [IngestRequest.Entry] = []
        var tables: [QualifiedName?] = []
        var bytes = 0
        /// The end of the last transaction that is whole in it.
        var end: LogPosition?

        mutating func add(_ new: [IngestRequest.Entry], of table: QualifiedName?) {
            for entry in new {
                entries.append(entry)
                tables.append(table)
                bytes += 200
                if case .success(let event) = entry.event { bytes += event.document?.count ?? 0 }
            }
        }
    }

    /// Hands a batch on, and waits until it is durable: with patience while the gateway's own database is away.
    private func take(_ batch: inout Batch) async throws {
        defer { batch = Batch() }
        if !batch.entries.isEmpty {
            let request = IngestRequest(entries: batch.entries, bodyBytes: batch.bytes)
            var pause = 0.25
            while !(try await take(request, batch)) {
                try await Task.sleep(for: .seconds(pause * Double.random(in: 0.8...1.2)))
                pause = min(10, pause * 2)
            }
        }
        let end = batch.end
        let hasEvents = !batch.entries.isEmpty
        progress.withLock { progress in
            if let end { progress.reached = max(progress.reached, end) }
            if hasEvents { progress.hasEvents = true }
        }
    }

    /// Whether all of a batch was taken or refused for good.
    private func take(_ request: IngestRequest, _ batch: Batch) async throws -> Bool {
        let answer: IngestAnswer
        do throws(Problem) {
            answer = try await parts.ingest.submit(request, from: claim.bearer)
        } catch {
            guard [.storeUnavailable, .overloaded].contains(error.code) else { throw error }
            try Task.checkCancellation()
            return false
        }
        // too many wait for outcomes of requests: the others will be duplicates
        if answer.verdicts.contains(where: { $0.problem?.code == .overloaded }) { return false }
        parts.metrics.events(.postgres, answer.verdicts)
        note(refused: answer.verdicts, batch)
        return true
    }

    // MARK: - Confirming

    /// Writes how far this is, and then tells the server, now and then.
    private func confirm(_ stream: ReplicationStream) async throws {
        let begun = ContinuousClock.now
        var confirmed = LogPosition.zero
        while true {
            let now = progress.withLock { $0 }
            // what ends at once is not what works
            let isFirst = !now.isProven && begun.duration(to: .now) >= configuration.proof
            if now.reached > now.written || now.isNews || isFirst {
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
        guard now.reached > now.written || now.isNews else { return }
        // not to be given up with what ended
        await Task { try? await self.hold(writing: true) }.value
        stream.confirm(progress.withLock { $0.written })
    }

    /// Looks at the slot now and then. What the tables lack counts once all is read that the log had from before.
    private func watch(_ inspection: SlotInspection, _ lack: SlotInspection.Lack?) async throws {
        var notedAt = ContinuousClock.now
        while true {
            try await Task.sleep(for: lack == nil ? configuration.watchInterval : configuration.tick)
            guard let slot = try await inspection.slot(now: configuration.now) else {
                throw SourceTrouble("Slot '\(settings.slot)' is gone.")
            }
            if notedAt.duration(to: .now) >= configuration.watchInterval {
                note(slot.report)
                notedAt = .now
            }
            try SlotInspection.checkAlive(slot, settings)
            if let lack, let confirmed = slot.confirmed, confirmed >= lack.end { throw lack.trouble }
        }
    }

    // MARK: - Notes

    private func note(_ report: SlotReport) {
        progress.withLock { progress in
            progress.state?.report = report
            if progress.isProven { progress.isNews = true }
        }
        parts.watched(report)
    }

    private func note(truncated tables: [QualifiedName]) {
        guard !tables.isEmpty else { return }
        let names = tables.map(\.description).joined(separator: ", ")
        let moment = configuration.now().rfc3339
        progress.withLock { progress in
            progress.state?.lastTruncation = SourceStore.bounded("\(names), \(moment)")
            progress.isNews = true
        }
        parts.logger.warning("Tables were emptied, which is not followed", metadata: metadata(["tables": "\(names)"]))
    }

    private func note(refused verdicts: [IngestVerdict], _ batch: Batch) {
        let refused = verdicts.indices.filter { verdicts[$0].result == .refused }
        guard let last = refused.last else { return }
        var words = batch.tables[last]?.description ?? "a table"
        if case .success(let event) = batch.entries[last].event { words += ", id \(event.entityID.text)" }
        words = SourceStore.bounded("\(words): \(verdicts[last].problem?.detail ?? "refused")")
        progress.withLock { progress in
            progress.state?.refused += Int64(refused.count)
            progress.state?.lastRefusal = words
            progress.isNews = true
        }
        let more = metadata(["count": "\(refused.count)", "reason": "\(words)"])
        parts.logger.warning("Rows of a database were refused", metadata: more)
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
