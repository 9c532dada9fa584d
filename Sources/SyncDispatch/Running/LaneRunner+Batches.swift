import FoundationEssentials
import Logging
import Spans
import SyncModel
import Synchronization

/// Sends several mutations of a lane in one request (product rule 23).
extension LaneRunner {
    /// Sends mutations in as few requests as possible.
    ///
    /// - Parameter finish: called with the steps that write the outcomes of a request. The worker performs these steps
    ///   together.
    func run(
        _ dispatches: [Dispatch],
        by batch: UpstreamBatch,
        _ finish: @escaping @Sendable ([LaneStep]) -> Void
    ) async {
        guard let organization = dispatches.first?.organization else { return }
        let batch = surroundings.refusedBatches.limited(batch, of: organization)
        let groups = BatchRequest.groups(dispatches, by: batch)
        noteCap(of: organization, circuits.concurrency(of: organization.id))
        let wanted = min(organization.settings.maxInFlightPerUser, groups.count)
        let extras = surroundings.shares.takeExtras(upTo: wanted - 1, of: organization.id)
        defer { surroundings.shares.releaseExtras(extras, of: organization.id) }
        let limit = 1 + extras
        await withDiscardingTaskGroup { group in
            for worker in 0..<min(limit, groups.count) {
                group.addTask {
                    for index in stride(from: worker, to: groups.count, by: limit) {
                        await send(groups[index], in: batch, finish)
                    }
                }
            }
        }
    }

    private func send(
        _ dispatches: [Dispatch],
        in batch: UpstreamBatch,
        _ finish: @escaping @Sendable ([LaneStep]) -> Void
    ) async {
        guard dispatches.count > 1, let first = dispatches.first,
            case .upstream(let like, let settings) = first.destination
        else {
            for dispatch in dispatches { finish([await run(dispatch)]) }
            return
        }
        let requests = dispatches.compactMap { dispatch in
            if case .upstream(let request, _) = dispatch.destination { request } else { nil }
        }
        let whole = BatchRequest(requests)
        let sent = await send(whole.request(to: batch, like: like), of: whole.bytes, to: settings, for: first)
        guard let sent else { return finishUnsent(dispatches, finish) }
        let answer = sent.answer
        sent.span?.set(.mutations, dispatches.count)
        if answer.isTooLong { surroundings.refusedBatches.halve(dispatches.count, of: first.organization) }
        switch BatchAnswer(answer, to: whole, now: configuration.now()) {
        case .parts(let answers):
            var (steps, successes, settled) = ([LaneStep](), 0, 0)
            // if the answer is to the whole batch, no mutation of the batch succeeded
            if !answer.isBatch { sent.endSpan(BatchResult.failed.rawValue) }
            if answer.mayNeedOperator {
                // a single request shows whether the upstream refuses only batches
                let step = await run(first)
                finish([step])
                settled = 1
                if case .settle(let results) = step, results.allSatisfy(\.outcome.kind.isResponsive) {
                    let reason = "the upstream refused the batch, but not a single request"
                    return refuse(dispatches, from: settled, settings, reason, finish)
                }
            }
            for (index, dispatch) in dispatches.enumerated().dropFirst(settled) {
                let request = requests[index]
                var outcome = await outcome(of: answers[index], to: dispatch, request, sentAt: sent.at, sent.started)
                if case .response(let response) = answer { outcome.room = response.room }
                outcome.batchSpan = sent.span?.context
                let isShared = index > settled && !answer.isBatch
                record(outcome, of: dispatch, took: ContinuousClock.now - sent.started, isShared: isShared)
                if outcome.status == .succeeded { successes += 1 }
                steps.append(.settle(dispatch, outcome))
            }
            let result = BatchResult(of: dispatches.count, successes: successes)
            if answer.isBatch { sent.endSpan(result.rawValue) }
            finish(steps)
            metrics.batch(of: dispatches.count, result, successes: successes)
        case .split:
            sent.endSpan(BatchResult.split.rawValue)
            metrics.batch(of: dispatches.count, .split)
            let middle = dispatches.count / 2
            await send(Array(dispatches[..<middle]), in: batch, finish)
            await send(Array(dispatches[middle...]), in: batch, finish)
        case .unsupported(let reason):
            sent.endSpan(BatchResult.refused.rawValue)
            refuse(dispatches, from: 0, settings, reason, finish)
        }
    }

    /// Returns the mutations of a refused batch to their lane, which sends them one by one.
    ///
    /// - Parameter settled: the number of mutations that were already sent one by one.
    private func refuse(
        _ dispatches: [Dispatch],
        from settled: Int,
        _ settings: UpstreamSettings,
        _ reason: String,
        _ finish: ([LaneStep]) -> Void
    ) {
        metrics.batch(of: dispatches.count, .refused)
        let lane = dispatches[0].lane
        surroundings.refusedBatches.insert(lane.organization, settingsChangedAt: settings.changedAt)
        logger.warning(
            "Upstream refused a batch: requests are sent one by one for ten minutes",
            metadata: metadata(lane, nil, ["reason": "\(reason)"])
        )
        finishUnsent(Array(dispatches[settled...]), finish)
    }

    /// Returns unsent mutations to their lane, which runs them again later.
    private func finishUnsent(_ dispatches: [Dispatch], _ finish: ([LaneStep]) -> Void) {
        finish(dispatches.map { .settle($0, Outcome(ofUnsent: $0)) })
    }
}

extension UpstreamAnswer {
    /// Whether the response is a success that is too long to be read.
    fileprivate var isTooLong: Bool {
        if case .response(let response) = self { isBatch && response.unusableBody?.isTooLong == true } else { false }
    }

    /// Whether the response to a batch may contain a response for each part. If not, all parts share one response.
    fileprivate var isBatch: Bool {
        if case .response(let response) = self { (200...299).contains(response.status) } else { false }
    }
}

/// The upstreams that have recently refused a batch, or whose answers to batches were too long.
///
/// The information is valid for ten minutes, and only for the settings with which the batch was sent. It only prevents
/// requests whose answers would be useless. No outcome of a mutation depends on it.
final class RefusedBatches: Sendable {
    private struct Refusal {
        let settingsChangedAt: Timestamp
        let end: ContinuousClock.Instant
    }

    /// The maximum number of parts of the next batches.
    private struct Limit {
        let parts: Int
        let settingsChangedAt: Timestamp
        let end: ContinuousClock.Instant
    }

    private static let pause: Duration = .seconds(600)
    private static let capacity = 20_000

    private let refusals = Mutex([UUID: Refusal]())
    private let limits = Mutex([UUID: Limit]())

    func insert(_ organization: UUID, settingsChangedAt: Timestamp) {
        refusals.withLock { refusals in
            if refusals.count >= Self.capacity { refusals.removeAll() }
            refusals[organization] = Refusal(settingsChangedAt: settingsChangedAt, end: .now + Self.pause)
        }
    }

    /// Halves the size of an upstream's next batches, because its answer to a batch of `parts` mutations was too long.
    func halve(_ parts: Int, of organization: Organization) {
        guard let settingsChangedAt = organization.upstream?.changedAt else { return }
        let known = limit(of: organization) ?? .max
        limits.withLock { limits in
            if limits.count >= Self.capacity { limits.removeAll() }
            limits[organization.id] = Limit(
                parts: min(known, max(1, parts / 2)),
                settingsChangedAt: settingsChangedAt,
                end: .now + Self.pause
            )
        }
    }

    /// Reduces the number of parts of an upstream's batches, if an answer was too long.
    func limited(_ batch: UpstreamBatch, of organization: Organization) -> UpstreamBatch {
        guard let limit = limit(of: organization) else { return batch }
        var limited = batch
        limited.maxRequests = min(batch.maxRequests, limit)
        return limited
    }

    private func limit(of organization: Organization) -> Int? {
        limits.withLock { limits in
            guard let limit = limits[organization.id] else { return nil }
            if limit.end > .now, limit.settingsChangedAt == organization.upstream?.changedAt { return limit.parts }
            limits[organization.id] = nil
            return nil
        }
    }

    /// The version of the settings with which an organization's upstream refused a batch: the time at which these
    /// settings were last changed. Nil if there is no valid refusal.
    func refusal(of organization: UUID) -> Timestamp? {
        refusals.withLock { refusals in
            guard let refusal = refusals[organization] else { return nil }
            if refusal.end > .now { return refusal.settingsChangedAt }
            refusals[organization] = nil
            return nil
        }
    }
}
