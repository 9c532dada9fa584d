package import FoundationEssentials
package import SyncModel
package import SyncStore

/// Imports the lines of a file of entities.
///
/// Each line becomes an event, and is committed like the events of a source, under the same rules. Batches are small,
/// so that devices can push between them.
///
/// The id of an event is derived from its line, and is committed together with the event. An import recognizes imported
/// lines by these ids. Therefore an import can be interrupted anywhere and run again: no line is missed or imported
/// twice. At first, the import looks up a few thousand lines at a time, which is a fast way to skip known lines. Once a
/// look-up finds only new lines, the import stops these look-ups.
package struct EntityImport {
    package struct Options: Sendable {
        package let organization: UUID
        /// The source of the events. Ids of events are unique within a source.
        package let source: String
        /// The imported entity types; empty for all.
        package var types: Set<ByteExactString> = []
        /// The filter by the time of change: lines with an older time are left out.
        package var updatedSince: Timestamp?
        /// Whether lines are only checked, and not imported.
        package var isDryRun = false

        package init(organization: UUID, source: String) {
            self.organization = organization
            self.source = source
        }
    }

    /// The counts of an import's lines, by result.
    package struct Report: Sendable, Hashable {
        /// The number of lines read, without blank lines.
        package var lines = 0
        package var applied = 0
        package var stale = 0
        package var duplicates = 0
        package var echoes = 0
        /// The number of parked events. These events wait for the outcome of requests to the upstream, and gateways
        /// process them after the import.
        package var parked = 0
        package var refused = 0
        /// The number of lines that the filters excluded.
        package var leftOut = 0

        package init() {}
    }

    /// A line that was refused.
    package struct Refusal: Sendable {
        /// The number of the line, from 1.
        package let line: Int
        /// The problem. Its pointers begin at the line's object.
        package let problem: Problem
    }

    /// The maximum number of lines in one look-up.
    static let scanLimit = 2_000
    /// The maximum size of the documents in memory, in bytes.
    static let batchBytes = 1_048_576
    /// The maximum time to wait for the database, or for capacity for parked events, in seconds.
    static let timeout = Double(IngestPlanner.timeoutSeconds) + 30

    private struct Line {
        let number: Int
        let event: IngestEvent
    }

    private let ingest: IngestCommit
    private let options: Options
    /// Called after each batch with the report, the number of the batch's lines, and the batch's duration.
    ///
    /// Also called after each look-up, with 0 lines. The import waits until this closure returns, so the closure can
    /// set the pace.
    private let passed: (Report, _ lines: Int, _ seconds: Double) async throws -> Void
    private let limit: () -> Int
    private let refused: (Refusal) -> Void
    /// Waits for a number of seconds.
    private let pause: (Double) async throws -> Void

    private var splitter = LineSplitter(limit: EntityLine.maximumBytes)
    private var report = Report()
    private var held: [Line] = []
    private var heldBytes = 0
    /// Whether an earlier run may have imported the next lines. The value is false once a look-up found only new lines.
    ///
    /// If known lines follow later, they are recognized when their batch is imported.
    private var mayBeKnown: Bool
    private var isAtBeginning = true

    /// - Parameters:
    ///   - limit: returns the maximum number of lines in the next batch.
    ///   - refused: called with each refused line. The order can differ from the order in the file.
    ///   - pause: waits for a number of seconds; tests can replace it.
    ///   - passed: called after each batch and each look-up.
    package init(
        _ ingest: IngestCommit,
        _ options: Options,
        limit: @escaping () -> Int,
        refused: @escaping (Refusal) -> Void = { _ in },
        pause: @escaping (Double) async throws -> Void = { try await Task.sleep(for: .seconds($0)) },
        passed: @escaping (Report, _ lines: Int, _ seconds: Double) async throws -> Void = { _, _, _ in }
    ) {
        self.ingest = ingest
        self.options = options
        self.limit = limit
        self.refused = refused
        self.pause = pause
        self.passed = passed
        mayBeKnown = !options.isDryRun
    }

    /// Imports the parts of a file that `next` returns, until `next` returns nil.
    ///
    /// - Throws: errors of `next`, and the reason why the import cannot continue: `store_unavailable` or `overloaded`
    ///   after the last attempt; `organization_unknown`; `invalid_request` for a compressed file.
    package mutating func run(_ next: () async throws -> [UInt8]?) async throws -> Report {
        while let part = try await next() {
            if isAtBeginning, part.starts(with: [0x1f, 0x8b]) {
                throw Problem(.invalidRequest, "it is compressed; use: zcat FILE | sluice import … -")
            }
            isAtBeginning = isAtBeginning && part.isEmpty
            for line in splitter.take(part) {
                read(line)
                if isFull { try await takeHeld() }
            }
        }
        if let line = splitter.finish() { read(line) }
        while !held.isEmpty { try await takeHeld() }
        return report
    }

    // MARK: - Lines

    private mutating func read(_ line: LineSplitter.Line) {
        report.lines += 1
        guard let text = line.text else {
            let detail = "the line is longer than \(splitter.limit) bytes"
            return refuse(line.number, Problem(.payloadTooLarge, pointer: "", rule: Rule.range, detail))
        }
        switch EntityLine.decode(text).event {
        case .failure(let problem): refuse(line.number, problem)
        case .success(let event):
            guard isWanted(event) else {
                report.leftOut += 1
                return
            }
            held.append(Line(number: line.number, event: event))
            heldBytes += text.count
        }
    }

    private func isWanted(_ event: IngestEvent) -> Bool {
        if !options.types.isEmpty, !options.types.contains(event.entityType) { return false }
        guard let since = options.updatedSince, let moment = event.mark.occurredAt else { return true }
        return moment >= since
    }

    private mutating func refuse(_ line: Int, _ problem: Problem) {
        report.refused += 1
        refused(Refusal(line: line, problem: problem))
    }

    // MARK: - Batches

    private var isFull: Bool {
        held.count >= (mayBeKnown ? Self.scanLimit : limit()) || heldBytes >= Self.batchBytes
    }

    private mutating func takeHeld() async throws {
        if mayBeKnown { try await inspect() }
        while !held.isEmpty { try await takeBatch(limit()) }
        heldBytes = 0
    }

    /// Drops the lines that an earlier run imported.
    private mutating func inspect() async throws {
        let began = ContinuousClock.now
        let (ids, options) = (held.map(\.event.id), options)
        let known = try await patiently { [ingest] () async throws(Problem) in
            try await ingest.known(ids, from: options.source, of: options.organization)
        }
        let count = held.count
        held.removeAll { known[$0.event.id] != nil }
        report.duplicates += count - held.count
        mayBeKnown = held.count < count
        // known lines take much less time than new lines, so the time of a look-up must not set the pace of imports
        try await passed(report, 0, (.now - began) / .seconds(1))
    }

    private mutating func takeBatch(_ count: Int) async throws {
        var batch = Array(held.prefix(count))
        held.removeFirst(batch.count)
        let began = ContinuousClock.now
        let size = batch.count
        var waited = 0.0
        while !batch.isEmpty {
            // the next attempt imports only the lines whose events exceeded the limit of parked events
            batch = try await take(batch, isLast: waited >= Self.timeout)
            guard !batch.isEmpty else { break }
            try await pause(1)
            waited += 1
        }
        try await passed(report, size, (.now - began) / .seconds(1) - waited)
    }

    /// Imports a batch.
    ///
    /// - Returns: the lines that the caller must import again.
    private mutating func take(_ batch: [Line], isLast: Bool) async throws -> [Line] {
        let request = IngestRequest(
            entries: batch.map { IngestRequest.Entry(eventID: $0.event.id, event: .success($0.event)) },
            bodyBytes: batch.reduce(0) { $0 + 200 + ($1.event.document?.count ?? 0) }
        )
        var again: [Line] = []
        for (line, verdict) in zip(batch, try await verdicts(request)) {
            switch verdict.result {
            case .applied: report.applied += 1
            case .stale: report.stale += 1
            case .duplicate: report.duplicates += 1
            case .echo: report.echoes += 1
            case .parked: report.parked += 1
            case .refused:
                let problem = verdict.problem ?? Problem(.internalError, "the line was rejected")
                if problem.code == .overloaded, !isLast {
                    again.append(line)
                } else {
                    refuse(line.number, Self.ofLine(problem))
                }
            }
        }
        return again
    }

    private func verdicts(_ request: IngestRequest) async throws -> [IngestVerdict] {
        let (options, ingest) = (options, ingest)
        return try await patiently { () async throws(Problem) in
            if options.isDryRun { return try await ingest.examine(request, of: options.organization) }
            let bearer = IngestBearer(
                organization: options.organization,
                // an import uses no service token; with this random id, no token is marked as used
                tokenID: UUID(),
                source: options.source,
                isFirstUse: false
            )
            return try await ingest.submitHalving(request, from: bearer).verdicts
        }
    }

    /// Retries while the database is unavailable or overloaded. If a master key is missing, the error is thrown
    /// immediately.
    ///
    /// A retry imports no line twice.
    private func patiently<Value>(_ body: () async throws(Problem) -> Value) async throws -> Value {
        var waited = 0.0
        while true {
            do throws(Problem) {
                return try await body()
            } catch {
                let isPassing = [.storeUnavailable, .overloaded].contains(error.code) && !error.isLocked
                guard isPassing, waited < Self.timeout else { throw error }
            }
            try await pause(2)
            waited += 2
        }
    }

    /// Returns the problem with pointers that begin at the line's object instead of the batch's.
    private static func ofLine(_ problem: Problem) -> Problem {
        var problem = problem
        problem.errors = problem.errors.map { error in
            let parts = error.pointer.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
            guard parts.count > 2, parts[1] == "events" else { return error }
            return ProblemDetail(
                pointer: parts.count > 3 ? "/" + parts[3] : "",
                rule: error.rule,
                detail: error.detail
            )
        }
        return problem
    }
}

// MARK: - TransferPace

/// The pace of a transfer.
///
/// If the operator specified no rate, the pace leaves most of the database's capacity to other work, as in retention.
package struct TransferPace: Sendable {
    /// The least and the greatest value of ``limit``.
    package static let limits = 1...500

    /// The lines per second, if an operator specified a rate.
    private let rate: Int?
    /// The shortest time from one batch to the next, in seconds.
    private let interval: Double
    private var pace = RetentionPace()
    /// The time in seconds by which a transfer is behind its rate. A transfer that is behind does not pause.
    private var credit = 0.0

    /// - Parameters:
    ///   - rate: the lines per second. If it is nil, the pace depends on the database's load.
    ///   - quota: the organization's quota of requests. The quota is for devices, and batches do not count against it.
    ///     Nevertheless, a transfer makes at most one batch in the time in which the quota allows two requests.
    package init(rate: Int? = nil, quota: Quota? = nil) {
        self.rate = rate
        interval = quota.map { 2 / Double($0.limit) } ?? 0
    }

    /// The maximum number of lines in the next batch. If the operator specified a rate, this is the number of lines in
    /// a tenth of a second.
    package var limit: Int {
        let most = rate.map { max(1, $0 / 10) } ?? pace.limit
        return min(max(most, Self.limits.lowerBound), Self.limits.upperBound)
    }

    /// Returns the seconds to pause after a batch.
    ///
    /// After a batch without lines, which was a look-up, the pause is as long as the look-up, up to one second. If the
    /// operator specified a rate, there is no pause after a look-up.
    package mutating func pause(after seconds: Double, lines: Int) -> Double {
        guard lines > 0 else { return rate == nil ? min(seconds, 1) : 0 }
        let own = pace.pause(after: seconds, rows: lines, waiting: 0)
        guard let rate else { return max(own, interval - seconds) }
        // a transfer can make up for at most one second of delay
        credit = min(credit + seconds - Double(lines) / Double(rate), 1)
        let pause = max(0, -credit, interval - seconds)
        credit += pause
        return pause
    }
}

extension Store {
    /// Exports the entities of an organization that a filter selects.
    package func export(of organization: UUID, _ filter: EntityExport.Filter) -> EntityExport {
        EntityExport(pool: pool, catalog: catalog, failure: failure, organization: organization, filter: filter)
    }
}
