package import FoundationEssentials
package import SyncModel
package import SyncStore

/// Brings the lines of a file of entities in, as a source brings events: by the same committer and the same rules, in
/// batches that are small enough for phones to push between them.
///
/// Imported lines are recognized by the ids of their events, which are derived from the lines themselves and committed
/// together with them. So an import can be interrupted anywhere and run again, and no line is missed or imported twice.
/// Lines already imported are looked up a few thousand at a time, which is fast, until a part of the file is new.
package struct EntityImport {
    package struct Options: Sendable {
        package let organization: UUID
        /// Whose ids the events' are.
        package let source: String
        /// Empty for all.
        package var types: Set<ByteExactString> = []
        /// Lines with an older time of change are left out.
        package var updatedSince: Timestamp?
        /// Whether lines are only examined.
        package var isDryRun = false

        package init(organization: UUID, source: String) {
            self.organization = organization
            self.source = source
        }
    }

    /// The results of lines.
    package struct Report: Sendable, Hashable {
        /// All that were read but blank ones.
        package var lines = 0
        package var applied = 0
        package var stale = 0
        package var duplicates = 0
        package var echoes = 0
        /// These events wait for the outcome of requests to the upstream; gateways process them afterwards.
        package var parked = 0
        package var refused = 0
        /// They passed no filter.
        package var leftOut = 0

        package init() {}
    }

    /// A line that was refused.
    package struct Refusal: Sendable {
        /// From 1.
        package let line: Int
        /// With pointers from the line's object.
        package let problem: Problem
    }

    /// Lines that one look-up asks for.
    static let scanLimit = 2_000
    /// Documents that are held, in bytes.
    static let batchBytes = 1_048_576
    /// How long the database, or room for events that have to wait, is waited for, in seconds.
    static let timeout = Double(IngestPlanner.timeoutSeconds) + 30

    private struct Line {
        let number: Int
        let event: IngestEvent
    }

    private let ingest: IngestCommit
    private let options: Options
    /// Called after each batch with the report, and after each look-up, then without lines; its duration sets the pace.
    private let passed: (Report, _ lines: Int, _ seconds: Double) async throws -> Void
    private let limit: () -> Int
    private let refused: (Refusal) -> Void
    /// Waits for a moment, in seconds.
    private let pause: (Double) async throws -> Void

    private var splitter = LineSplitter(limit: EntityLine.maximumBytes)
    private var report = Report()
    private var held: [Line] = []
    private var heldBytes = 0
    /// Whether lines may be known from a run before: until a part of the file is new throughout.
    ///
    /// Known lines after that are recognized when their batch is imported.
    private var mayBeKnown: Bool
    private var isAtBeginning = true

    /// - Parameters:
    ///   - limit: lines of the next batch.
    ///   - refused: called with each refused line, not always in their order.
    ///   - passed: called behind each batch.
    ///   - pause: waits; a test's clock may not.
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
    ///   after the last attempt, `organization_unknown`; `invalid_request` for input that is no text.
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

    /// Drops the lines that were imported before.
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
        // known lines cost next to nothing, and do not show what imported lines cost
        try await passed(report, 0, (.now - began) / .seconds(1))
    }

    private mutating func takeBatch(_ count: Int) async throws {
        var batch = Array(held.prefix(count))
        held.removeFirst(batch.count)
        let began = ContinuousClock.now
        let size = batch.count
        var waited = 0.0
        while !batch.isEmpty {
            // retries the events for which there was no room among the parked ones
            batch = try await take(batch, isLast: waited >= Self.timeout)
            guard !batch.isEmpty else { break }
            try await pause(1)
            waited += 1
        }
        try await passed(report, size, (.now - began) / .seconds(1) - waited)
    }

    /// - Returns: the lines that are to come again.
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
                // no token's use is noted
                tokenID: UUID(),
                source: options.source,
                isFirstUse: false
            )
            return try await ingest.submitHalving(request, from: bearer).verdicts
        }
    }

    /// Tries again while the database is unavailable or overloaded, but not if a master key is missing: nothing is
    /// imported twice.
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

    /// The problem with pointers that begin at the line's object, and not in a batch.
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

/// The pace of a transfer: the operator's rate, or, without one, a pace that leaves the database to others, as
/// retention does.
package struct TransferPace: Sendable {
    /// Lines that a batch may have.
    package static let limits = 1...500

    /// Lines a second, if an operator specified a rate.
    private let rate: Int?
    /// The shortest time from one batch to the next, in seconds.
    private let interval: Double
    private var pace = RetentionPace()
    /// How far a transfer is behind its rate: seconds that it may go without a pause.
    private var credit = 0.0

    /// - Parameters:
    ///   - rate: lines a second; nil: depends on the database's load.
    ///   - quota: of the organization's requests. A transfer uses none of it, because it is none of the phones, but
    ///     makes at most half as many batches as it allows.
    package init(rate: Int? = nil, quota: Quota? = nil) {
        self.rate = rate
        interval = quota.map { 2 / Double($0.limit) } ?? 0
    }

    /// Lines that the next batch may have: a tenth of a second's at a given rate.
    package var limit: Int {
        let most = rate.map { max(1, $0 / 10) } ?? pace.limit
        return min(max(most, Self.limits.lowerBound), Self.limits.upperBound)
    }

    /// Returns the seconds to pause after a batch; after one without lines, the time that it took.
    package mutating func pause(after seconds: Double, lines: Int) -> Double {
        guard lines > 0 else { return rate == nil ? min(seconds, 1) : 0 }
        let own = pace.pause(after: seconds, rows: lines, waiting: 0)
        guard let rate else { return max(own, interval - seconds) }
        // the delay of a batch is made up for within a second
        credit = min(credit + seconds - Double(lines) / Double(rate), 1)
        let pause = max(0, -credit, interval - seconds)
        credit += pause
        return pause
    }
}

extension Store {
    /// Writes down all entities of an organization.
    package func export(of organization: UUID, _ filter: EntityExport.Filter) -> EntityExport {
        EntityExport(pool: pool, catalog: catalog, failure: failure, organization: organization, filter: filter)
    }
}
