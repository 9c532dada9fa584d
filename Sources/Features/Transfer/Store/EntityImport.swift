package import FoundationEssentials
package import SyncModel
package import SyncStore

/// Imports the lines of a file of entities, with the committer and the rules of a source's events. Batches are small
/// enough for devices to push between them.
///
/// Imported lines are recognized by the ids of their events, which are derived from the lines themselves and committed
/// together with them. So an import can be interrupted anywhere and run again, and no line is missed or imported twice.
/// Until a part of the file has only new lines, the import looks up known lines a few thousand at a time, which is
/// fast.
package struct EntityImport {
    package struct Options: Sendable {
        package let organization: UUID
        /// The source of the events, to which their ids belong.
        package let source: String
        /// The imported entity types; empty for all.
        package var types: Set<ByteExactString> = []
        /// Lines with an older time of change are left out.
        package var updatedSince: Timestamp?
        /// Whether lines are only checked.
        package var isDryRun = false

        package init(organization: UUID, source: String) {
            self.organization = organization
            self.source = source
        }
    }

    /// The results of an import's lines.
    package struct Report: Sendable, Hashable {
        /// The number of lines read, without blank lines.
        package var lines = 0
        package var applied = 0
        package var stale = 0
        package var duplicates = 0
        package var echoes = 0
        /// Parked events, which wait for the outcome of requests to the upstream; gateways process them afterwards.
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
        /// The problem, with pointers that begin at the line's object.
        package let problem: Problem
    }

    /// The maximum number of lines in one look-up.
    static let scanLimit = 2_000
    /// The maximum size of the documents in memory, in bytes.
    static let batchBytes = 1_048_576
    /// The seconds to wait for the database or for space for parked events.
    static let timeout = Double(IngestPlanner.timeoutSeconds) + 30

    private struct Line {
        let number: Int
        let event: IngestEvent
    }

    private let ingest: IngestCommit
    private let options: Options
    /// Called with the report after each batch and, with 0 lines, after each look-up. The seconds set the pace.
    private let passed: (Report, _ lines: Int, _ seconds: Double) async throws -> Void
    private let limit: () -> Int
    private let refused: (Refusal) -> Void
    /// Waits for a number of seconds.
    private let pause: (Double) async throws -> Void

    private var splitter = LineSplitter(limit: EntityLine.maximumBytes)
    private var report = Report()
    private var held: [Line] = []
    private var heldBytes = 0
    /// Whether an earlier run may have imported the next lines. It is false once a part of the file had only new lines.
    ///
    /// Known lines after such a part are recognized when their batch is imported.
    private var mayBeKnown: Bool
    private var isAtBeginning = true

    /// - Parameters:
    ///   - limit: the maximum number of lines in the next batch.
    ///   - refused: called with each refused line, not always in the order of the file.
    ///   - passed: called after each batch.
    ///   - pause: waits for a number of seconds; tests can replace it.
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

    /// Imports all parts that `next` returns, until it returns nil.
    ///
    /// - Throws: errors of `next`, and the reason why the import cannot continue: `store_unavailable` and `overloaded`
    ///   after the last attempt, `organization_unknown`; `invalid_request` for input that is not text.
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
        // known lines are much cheaper than new lines, so their duration must not set the pace of imports
        try await passed(report, 0, (.now - began) / .seconds(1))
    }

    private mutating func takeBatch(_ count: Int) async throws {
        var batch = Array(held.prefix(count))
        held.removeFirst(batch.count)
        let began = ContinuousClock.now
        let size = batch.count
        var waited = 0.0
        while !batch.isEmpty {
            // retries the events that exceeded the limit of parked events
            batch = try await take(batch, isLast: waited >= Self.timeout)
            guard !batch.isEmpty else { break }
            try await pause(1)
            waited += 1
        }
        try await passed(report, size, (.now - began) / .seconds(1) - waited)
    }

    /// - Returns: the lines to import again.
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
                // no service token is used, so none is marked as used
                tokenID: UUID(),
                source: options.source,
                isFirstUse: false
            )
            return try await ingest.submitHalving(request, from: bearer).verdicts
        }
    }

    /// Retries while the database is unavailable or overloaded, but not if a master key is missing. A retry imports
    /// nothing twice.
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

    /// Returns the problem with pointers that begin at the line's object instead of the batch.
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

/// The pace of a transfer: the operator's rate, or a pace that leaves most of the database's capacity to other work, as
/// in retention.
package struct TransferPace: Sendable {
    /// The permitted numbers of lines in a batch.
    package static let limits = 1...500

    /// The lines per second, if an operator specified a rate.
    private let rate: Int?
    /// The shortest time from one batch to the next, in seconds.
    private let interval: Double
    private var pace = RetentionPace()
    /// The seconds by which a transfer is late for its rate. While it is late, it does not pause.
    private var credit = 0.0

    /// - Parameters:
    ///   - rate: lines a second; nil: depends on the database's load.
    ///   - quota: the organization's quota of requests. A transfer does not use the quota, which is for devices, but
    ///     makes at most half as many batches as it allows requests.
    package init(rate: Int? = nil, quota: Quota? = nil) {
        self.rate = rate
        interval = quota.map { 2 / Double($0.limit) } ?? 0
    }

    /// The maximum number of lines in the next batch: a tenth of a second's lines at a given rate.
    package var limit: Int {
        let most = rate.map { max(1, $0 / 10) } ?? pace.limit
        return min(max(most, Self.limits.lowerBound), Self.limits.upperBound)
    }

    /// Returns the seconds to pause after a batch; after a batch without lines, returns the batch's duration.
    package mutating func pause(after seconds: Double, lines: Int) -> Double {
        guard lines > 0 else { return rate == nil ? min(seconds, 1) : 0 }
        let own = pace.pause(after: seconds, rows: lines, waiting: 0)
        guard let rate else { return max(own, interval - seconds) }
        // a transfer makes up for at most one second of delay
        credit = min(credit + seconds - Double(lines) / Double(rate), 1)
        let pause = max(0, -credit, interval - seconds)
        credit += pause
        return pause
    }
}

extension Store {
    /// Exports all entities of an organization.
    package func export(of organization: UUID, _ filter: EntityExport.Filter) -> EntityExport {
        EntityExport(pool: pool, catalog: catalog, failure: failure, organization: organization, filter: filter)
    }
}
