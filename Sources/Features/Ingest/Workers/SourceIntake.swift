import Spans
import SyncModel
import SyncStore

/// Submits a source's events to the feed in their order, in batches of limited size.
///
/// Only the feed has the whole document that a patch changes. A patch costs as much as the whole document, and
/// therefore a batch contains few patches. If the feed does not accept a batch, the batch is halved, down to single
/// events, and retried with growing pauses. The number of attempts is limited. The caller reports the result of
/// ``take(_:noting:)`` as the source's state.
struct SourceIntake: Sendable {
    struct Limits: Sendable {
        /// The maximum number of events in a batch.
        var events: Int
        /// The maximum size of a batch's documents, in bytes. A single event can be larger.
        var bytes: Int
        /// The maximum number of patches in a batch. A patched document has at most 1 MiB, and is read, merged and
        /// written as a whole.
        var patches = 32
        /// The number of attempts to submit the same event. After these attempts, the source stops.
        var attempts = 8
        /// The pause before the second attempt, in seconds. Each later pause is twice as long, up to ``longestPause``.
        var pause = 0.25
        var longestPause = 10.0
        /// Whether an event that the feed can never accept is refused like an invalid event. If false, such an event
        /// stops the source.
        var skipsImpossible = false
    }

    enum Outcome: Sendable {
        /// Each event was accepted, or permanently refused.
        case taken
        /// All attempts to submit these events failed. The reason may be temporary.
        case postponed(Range<Int>, reason: String)
        /// The feed can never accept this event.
        case impossible(Int, Problem)
        /// The feed accepts no events of this source.
        case rejected(Problem)
        /// The gateway is stopping, or another worker has the source.
        case interrupted
    }

    let ingest: IngestCommit
    let bearer: IngestBearer
    let kind: SourceKind
    let metrics: SourceMetrics
    let limits: Limits
    let isEnding: @Sendable () -> Bool

    /// Submits events.
    ///
    /// - Parameter note: called with a range of events, and with their verdicts once all these verdicts are final. If
    ///   an attempt failed and the events will be submitted again, the verdicts are nil.
    func take(
        _ entries: [IngestRequest.Entry],
        noting note: (_ range: Range<Int>, _ verdicts: [IngestVerdict]?) -> Void
    ) async -> Outcome {
        var start = 0
        var size = limits.events
        var failures = 0
        while start < entries.count {
            let range = Self.batch(of: entries, from: start, size, limits)
            let reason: String
            switch await submit(entries[range]) {
            case .success(let verdicts):
                let overload = verdicts.first { $0.problem?.code == .overloaded }?.problem
                metrics.events(kind, verdicts.filter { $0.problem?.code != .overloaded })
                guard let overload else {
                    note(range, verdicts)
                    (start, failures) = (range.upperBound, 0)
                    size = min(limits.events, max(1, size) * 2)
                    continue
                }
                // in the next attempt, the events that were accepted are duplicates
                reason = overload.detail
                metrics.retry(kind, .parked)
                failures = verdicts.contains { $0.result.isRemembered } ? 1 : failures + 1
            case .failure(let problem) where problem.code == .payloadTooLarge:
                note(range, nil)
                metrics.retry(kind, .tooLarge)
                if range.count == 1 {
                    guard let outcome = impossible(range, problem, entries, note) else {
                        start = range.upperBound
                        continue
                    }
                    return outcome
                }
                size = range.count / 2
                continue
            case .failure(let problem):
                guard Self.mayPass(problem.code) else { return .rejected(problem) }
                reason = problem.detail
                metrics.retry(kind, .unavailable)
                // an internal error of a batch is not counted as a failed attempt: one event may cause the error, and
                // the batch is halved until this event is found
                if problem.code != .internalError || range.count == 1 { failures += 1 }
                size = max(1, range.count / 2)
                if problem.code == .internalError, range.count == 1, failures >= limits.attempts {
                    guard let outcome = impossible(range, problem, entries, note) else {
                        (start, failures) = (range.upperBound, 0)
                        continue
                    }
                    return outcome
                }
            }
            note(range, nil)
            if failures >= limits.attempts { return .postponed(range, reason: reason) }
            let pause = min(limits.longestPause, limits.pause * Double(1 << min(max(failures - 1, 0), 16)))
            try? await Task.sleep(for: .seconds(pause * Double.random(in: 0.8...1.2)))
            if Task.isCancelled || isEnding() { return .interrupted }
        }
        return .taken
    }

    /// Handles an event that the feed can never accept. Returns nil if the event is refused and the source continues.
    private func impossible(
        _ range: Range<Int>,
        _ problem: Problem,
        _ entries: [IngestRequest.Entry],
        _ note: (Range<Int>, [IngestVerdict]?) -> Void
    ) -> Outcome? {
        guard limits.skipsImpossible else { return .impossible(range.lowerBound, problem) }
        let verdict = IngestVerdict(eventID: entries[range.lowerBound].eventID, .refused, problem: problem)
        metrics.events(kind, [verdict])
        note(range, [verdict])
        return nil
    }

    private static func mayPass(_ code: ProblemCode) -> Bool {
        [.overloaded, .storeUnavailable, .keysUnavailable, .internalError].contains(code)
    }

    private func submit(_ entries: ArraySlice<IngestRequest.Entry>) async -> Result<[IngestVerdict], Problem> {
        let entries = Array(entries)
        do throws(Problem) {
            let request = IngestRequest(entries: entries, bodyBytes: entries.reduce(0) { $0 + Self.size(of: $1) })
            let span = Spans.root("source batch", .internal)
            span?.set(organization: bearer.organization)
            return .success(
                try await Spans.within(span) { () async throws(Problem) in
                    try await ingest.submit(request, from: bearer).verdicts
                }
            )
        } catch {
            return .failure(error)
        }
    }

    /// Returns the range of the next events that fit into a batch.
    static func batch(
        of entries: [IngestRequest.Entry],
        from start: Int,
        _ size: Int,
        _ limits: Limits
    ) -> Range<Int> {
        var (end, bytes, patches) = (start, 0, 0)
        while end < entries.count, end - start < max(1, size) {
            bytes += Self.size(of: entries[end])
            if case .success(let event) = entries[end].event, event.operation == .patch { patches += 1 }
            if end > start, bytes > limits.bytes || patches > limits.patches { break }
            end += 1
        }
        return start..<end
    }

    /// Returns the size of an event in a request, in bytes.
    private static func size(of entry: IngestRequest.Entry) -> Int {
        256 + ((try? entry.event.get())?.document?.count ?? 0)
    }
}
