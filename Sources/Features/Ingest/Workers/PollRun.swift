import Logging
import SyncModel
import SyncStore

/// One lease of a source. A run requests pages one at a time, and ingests each page before it requests the next page.
///
/// The run ends when the pass is complete, the source's turn is over, or an operation fails. The events of a page are
/// durable before the stored state includes the page.
struct PollRun: Sendable {
    let claim: ClaimedSource
    let store: Store
    let configuration: Poller.Configuration
    let metrics: SourceMetrics
    let logger: Logger
    /// Whether the gateway is stopping.
    let isEnding: @Sendable () -> Bool
    let fetch: @Sendable (UpstreamFetch, UpstreamSettings) async -> FetchAnswer

    /// The result of a run.
    struct Result: Sendable {
        var outcome: SourceOutcome
        /// Whether more pages can be read immediately.
        var hasMore = false
        var refused = 0
        /// The place of the first refused item, and the reason.
        var firstRefusal: String?
        /// The reason why the events that were read could not be ingested yet.
        var postponement: String?
    }

    /// The pause before the next run if the gateway's database is unavailable, in seconds.
    private static let rest: Double = 10

    /// Runs the lease.
    ///
    /// - Returns: the result; nil if another worker has the source.
    func result() async -> Result? {
        guard case .poller(let settings) = claim.settings else { return Result(outcome: released(after: Self.rest)) }
        let found: UpstreamSettings?
        do throws(Problem) {
            found = try await currentUpstream()
        } catch {
            return Result(outcome: released(after: Self.rest), postponement: error.detail)
        }
        guard let upstream = found else {
            return failed(PollFailure("the organization has no upstream"), nil, settings, claim.failureCount)
        }
        // if the upstream has changed since the source was claimed, the next run uses the new settings
        guard upstream.changedAt == claim.upstreamChangedAt else { return Result(outcome: released(after: 0)) }
        switch upstream.base {
        case .success(let base):
            return await pages(PollPlanner(settings, base: base, limits: configuration.limits), upstream)
        case .failure(let error):
            let failure = PollFailure("the upstream's base URL \(error.reason)")
            return failed(failure, nil, settings, claim.failureCount)
        }
    }

    /// Returns the upstream's settings. If the cached settings are not those that the claim read in the database, reads
    /// the settings again.
    private func currentUpstream() async throws(Problem) -> UpstreamSettings? {
        let known = try await store.catalog.organization(claim.key.organization)?.upstream
        guard known?.changedAt != claim.upstreamChangedAt else { return known }
        store.catalog.invalidate(claim.key.organization)
        return try await store.catalog.organization(claim.key.organization)?.upstream
    }

    private func pages(_ planner: PollPlanner, _ upstream: UpstreamSettings) async -> Result? {
        var state = planner.state(stored: claim.state)
        var failures = claim.failureCount
        var tally = PollTally()
        let began = ContinuousClock.now
        for count in 1... {
            let timeout = Duration.seconds(upstream.timeoutSeconds)
            let request = planner.request(state, of: claim.key.organization, timeout: timeout)
            let askedAt = configuration.now()
            let reading: PollPlanner.Reading
            switch await fetch(request, upstream) {
            case .none(let reason):
                if isEnding() { return finished(released(after: 0), tally) }
                reading = .failed(PollFailure(reason))
            case .response(let response): reading = planner.reading(response, to: request, in: state)
            }
            if Task.isCancelled { return nil }
            let page: PollPage
            switch reading {
            case .unchanged: return finished(succeeded(planner, nil, state, tally), tally)
            case .failed(let failure):
                return finished(self.failure(failure, planner, state, failures), tally)
            case .page(let found): page = found
            }
            // the lease is checked, because an operator may have changed or disabled the source during the request, or
            // changed the upstream; the page is then not applied
            guard await isHeld() else { return finished(released(after: 0), tally) }
            let taken = await take(page)
            tally.add(taken.tally)
            if Task.isCancelled { return nil }
            if taken.isInterrupted { return finished(released(after: 0), tally) }
            if let reason = taken.failure {
                let failure = PollFailure("the items of a page could not be committed: \(reason)")
                return finished(failed(failure, nil, planner.settings, failures).outcome, tally)
            }
            let step = planner.state(
                after: page,
                taken.tally,
                in: state,
                askedAt: askedAt,
                now: configuration.now()
            )
            switch step {
            case .done(let next): return finished(succeeded(planner, next, next, tally), tally)
            case .failed(let failure):
                return finished(self.failure(failure, planner, state, failures), tally)
            case .more(let next):
                state = next
                let isOver = count >= configuration.pages || .now - began > .seconds(configuration.turn)
                if isOver || isEnding() {
                    var result = finished(succeeded(planner, next, next, tally), tally)
                    result.hasMore = true
                    return result
                }
            }
            failures = 0
            guard await isRecorded(state, planner, hasEvents: tally.hasEvents) else {
                return finished(released(after: 0), tally)
            }
        }
        return nil
    }

    private func isHeld() async -> Bool {
        do throws(Problem) {
            return try await store.sources.isHeld(claim)
        } catch {
            // the gateway's database is unavailable, and the worker continues until the lease ends
            return true
        }
    }

    /// Writes the position of the run; returns false if the worker has lost the source, or the upstream has changed.
    ///
    /// If the write fails, the run continues. If the run is interrupted after such a failure, the next run reads the
    /// pages after the last written position again.
    private func isRecorded(_ state: PollState, _ planner: PollPlanner, hasEvents: Bool) async -> Bool {
        do throws(Problem) {
            return try await store.sources.progress(claim, state: planner.stored(state), hasEvents: hasEvents) != nil
        } catch {
            logger.debug("A source's progress was not written", metadata: ["reason": "\(error.detail)"])
            return true
        }
    }

    // MARK: - Outcomes

    private func finished(_ outcome: SourceOutcome, _ tally: PollTally) -> Result {
        Result(outcome: outcome, refused: tally.refused, firstRefusal: tally.firstRefusal)
    }

    private func released(after seconds: Double) -> SourceOutcome {
        .released(nextRunAt: configuration.now().adding(seconds: seconds))
    }

    /// - Parameters:
    ///   - state: the state to write; nil if the upstream's list is unchanged.
    ///   - reached: the state that the run has reached. It determines the time of the next run, and the warning.
    private func succeeded(
        _ planner: PollPlanner,
        _ state: PollState?,
        _ reached: PollState,
        _ tally: PollTally
    ) -> SourceOutcome {
        let now = configuration.now()
        return .succeeded(
            state: state.map(planner.stored),
            hasEvents: tally.hasEvents,
            // an incomplete pass continues immediately, but after other waiting sources
            nextRunAt: reached.isInPass ? now : now.adding(seconds: Double(planner.settings.intervalSeconds)),
            warning: reached.warning(at: now)
        )
    }

    private func failure(
        _ failure: PollFailure,
        _ planner: PollPlanner,
        _ state: PollState,
        _ failures: Int32
    ) -> SourceOutcome {
        let next = failure.state ?? state.afterFailures(Int(failures) + 1)
        return failed(failure, next.map(planner.stored), planner.settings, failures).outcome
    }

    private func failed(
        _ failure: PollFailure,
        _ state: [UInt8]?,
        _ settings: PollerSettings,
        _ failures: Int32
    ) -> Result {
        let retryAt = PollSchedule.retry(
            settings,
            after: Int(failures) + 1,
            now: configuration.now(),
            notBefore: failure.retryAt,
            jitter: .random(in: 0...1)
        )
        return Result(outcome: .failed(error: failure.reason, retryAt: retryAt, state: state))
    }

    // MARK: - Taking

    private struct Taken {
        var tally = PollTally()
        /// The reason why the remaining events could not be ingested.
        var failure: String?
        /// Whether the gateway is stopping.
        var isInterrupted = false
    }

    /// Submits a page's events, in batches of the maximum size.
    private func take(_ page: PollPage) async -> Taken {
        var taken = Taken()
        guard let events = page.events else { return taken }
        metrics.events(.poller, [], ignored: events.ignored)
        var limits = SourceIntake.Limits(events: configuration.limits.mutations, bytes: configuration.limits.bodyBytes)
        limits.attempts = configuration.attemptsWhileOverloaded
        limits.pause = configuration.retryPause
        // an event that the feed can never accept does not stop the source: it is reported as refused, and later passes
        // read its item again
        limits.skipsImpossible = true
        let intake = SourceIntake(
            ingest: store.ingest,
            bearer: claim.bearer,
            kind: .poller,
            metrics: metrics,
            limits: limits,
            isEnding: isEnding
        )
        var tally = PollTally()
        let outcome = await intake.take(events.entries) { range, verdicts in
            guard let verdicts else { return }
            for (index, verdict) in verdicts.enumerated() {
                let place = range.lowerBound + index
                let problem = verdict.problem.map { events.placed($0.moved(from: index, to: place), of: place) }
                tally.record(verdict.result, problem)
            }
        }
        taken.tally = tally
        switch outcome {
        case .taken: break
        case .postponed(_, let reason): taken.failure = reason
        case .impossible(_, let problem), .rejected(let problem): taken.failure = problem.detail
        case .interrupted: taken.isInterrupted = true
        }
        return taken
    }
}

extension Problem {
    /// Returns the problem with its pointers changed from one event's index to another.
    fileprivate func moved(from index: Int, to other: Int) -> Problem {
        guard index != other else { return self }
        var problem = self
        let prefix = "/events/\(index)"
        problem.errors = problem.errors.map { error in
            guard error.pointer.hasPrefix(prefix) else { return error }
            var error = error
            error.pointer = "/events/\(other)" + error.pointer.dropFirst(prefix.count)
            return error
        }
        return problem
    }
}
