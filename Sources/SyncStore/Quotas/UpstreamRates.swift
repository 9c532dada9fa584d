package import FoundationEssentials
import Postgres
package import SyncModel
import Synchronization

/// Limits the requests to upstreams with `requests_per_second`, over all replicas together.
///
/// The token bucket of an upstream is in the upstream's row. A replica reserves the requests of a quarter of a second
/// in advance, as ``RequestQuotas`` does. In T seconds, the replicas send at most `rate · (T + 1)` requests, plus the
/// requests that each replica had reserved before.
package final class UpstreamRates: Sendable {
    /// The maximum number of upstreams whose reserved requests are in memory.
    private static let capacity = 20_000
    /// The shortest and the longest pause of a lane that may not send a request yet, in seconds.
    private static let pauses = 0.05...LaneBlocker.longestRatePause

    private struct Entry {
        var portion: RequestPortion
        var drawing: Task<Void, Never>?
    }

    private let catalog: Catalog
    private let draw: RequestDraw
    private let now: TimeSource
    private let failure: StoreFailure
    private let entries = Mutex([UUID: Entry]())

    init(catalog: Catalog, pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.catalog = catalog
        draw = RequestDraw(pool: pool, isOfUpstreams: true)
        self.now = now
        self.failure = failure
    }

    /// The result of counting requests.
    package struct Taken: Sendable {
        /// The number of requests that may be sent.
        package var count: Int
        /// The seconds after which to try again if no request may be sent.
        ///
        /// Nil if requests may be sent, or if a batch of the lane is still in flight.
        package var pause: Double?
    }

    /// Counts requests that a lane is about to send.
    ///
    /// The requests of a batch are counted together. A batch has as many parts as the bucket allows at the moment.
    ///
    /// - Parameter wanted: the maximum number of requests to count. It is ignored if the lane sends a batch.
    /// - Returns: the counted requests; nil if their number is not limited.
    package func take(upTo wanted: Int, of organization: UUID, _ progress: LaneProgress) async -> Taken? {
        guard let (quota, batch) = await limits(of: organization, progress) else { return nil }
        guard let batch else {
            let count = await take(upTo: wanted, of: organization, quota, together: false)
            return taken(count, of: organization, lanes: progress.lanes)
        }
        // the next batch starts when all parts of the present batch are settled
        guard progress.flights.isEmpty else { return Taken(count: 0) }
        let most = min(batch.maxRequests, max(1, progress.room))
        let count = await take(upTo: most, of: organization, quota, together: true)
        // the pause is longer, so that the bucket then contains a whole batch
        return taken(count, of: organization, lanes: progress.lanes * most)
    }

    private func taken(_ count: Int, of organization: UUID, lanes: Int) -> Taken {
        guard count == 0 else { return Taken(count: count) }
        return Taken(count: 0, pause: pause(of: organization, lanes: lanes) ?? Self.pauses.lowerBound)
    }

    /// - Parameter isTogether: whether to wait for a draw even if some requests, but fewer than `wanted`, were counted.
    /// - Returns: the number of counted requests.
    private func take(
        upTo wanted: Int,
        of organization: UUID,
        _ quota: Quota,
        together isTogether: Bool
    ) async -> Int {
        var total = 0
        // at most two draws; the last round counts the requests of the second draw
        for round in 0...2 {
            let wanted = wanted - total
            let moment = now()
            let (taken, drawing) = entries.withLock { entries in
                Self.evict(&entries)
                var entry = entries[organization] ?? Entry(portion: RequestPortion(quota))
                defer { entries[organization] = entry }
                var (taken, isUnknown) = (0, false)
                while taken < wanted, !isUnknown {
                    switch entry.portion.admit(quota, at: moment) {
                    case .admitted: taken += 1
                    case .refused: return (taken, Task<Void, Never>?.none)
                    case .unknown: isUnknown = true
                    }
                }
                if isUnknown || entry.portion.isLow(at: moment), entry.drawing == nil, round < 2 {
                    let missing = wanted - taken
                    entry.drawing = Task { await self.fetch(organization, quota, missing) }
                }
                return (taken, entry.drawing)
            }
            total += taken
            guard total == 0 || isTogether && taken < wanted, let drawing, round < 2 else { return total }
            await drawing.value
        }
        return total
    }

    /// Adds requests that were counted, but not sent, to the reserved requests in memory again.
    package func release(_ count: Int, of organization: UUID) {
        guard count > 0 else { return }
        let moment = now()
        entries.withLock { $0[organization]?.portion.release(Int64(count), at: moment) }
    }

    /// Returns the pause of a lane that may not send a request now, in seconds; nil if its upstream has no limit.
    ///
    /// - Parameter lanes: the number of the organization's lanes that run in this replica.
    package func pause(of organization: UUID, lanes: Int) -> Double? {
        let limit = entries.withLock { $0[organization]?.portion.quota.limit }
        return limit.map { min(max(Double(lanes) / Double($0), Self.pauses.lowerBound), Self.pauses.upperBound) }
    }

    private func limits(
        of organization: UUID,
        _ progress: LaneProgress
    ) async -> (quota: Quota, batch: UpstreamBatch?)? {
        // the error is ignored, because the lane's step fails for the same reason and reports it
        guard let entry = try? await catalog.entry(organization) else { return nil }
        guard let found = entry.organization, let quota = found.upstream?.requestQuota else {
            entries.withLock { _ = $0.removeValue(forKey: organization) }
            return nil
        }
        return (quota, progress.batch(in: found))
    }

    private func fetch(_ organization: UUID, _ quota: Quota, _ missing: Int) async {
        let moment = now()
        let wanted = entries.withLock { $0[organization]?.portion.wanted(waiting: missing) } ?? Int64(missing)
        let demand = RequestDraw.Demand(organization: organization, quota: quota, wanted: wanted)
        var grant: RequestDraw.Grant?
        do {
            grant = try await draw.draw([demand], at: moment)[organization]
        } catch {
            _ = failure.problem(error, doing: "draw requests to an upstream")
        }
        entries.withLock { entries in
            entries[organization]?.drawing = nil
            guard let grant else { return }
            entries[organization]?.portion.add(grant.granted, wanted: wanted, from: grant.bucket, at: moment)
        }
    }

    private static func evict(_ entries: inout [UUID: Entry]) {
        if entries.count >= capacity { entries = entries.filter { $0.value.drawing != nil } }
    }
}
