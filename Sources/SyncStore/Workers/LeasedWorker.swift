package import ServiceLifecycle
package import SyncModel

/// A service that finds due rows, leases them, and processes each row.
///
/// At any time, at most one worker of all replicas has the lease of a row.
///
/// A conforming type provides the statements and the work. The loop does the rest: it searches at intervals and after a
/// wake-up, assigns places to the items that it finds, and renews leases. At graceful shutdown, it ends when the work
/// in progress is complete.
package protocol LeasedWorker: Service {
    associatedtype Lease: Sendable
    /// The position at which a search continues.
    associatedtype Cursor: Sendable
    associatedtype Places: WorkPlaces

    var loop: WorkerLoop<Places> { get }

    /// The renewal of leases while ``work(on:)`` runs; nil if the steps of the work renew the lease themselves.
    var renewal: LeaseRenewal<Lease>? { get }

    /// Finds due items.
    ///
    /// If ``claim(_:)`` leases the items, the search takes no locks. If the search itself leases the items, it returns
    /// only items that have a place.
    ///
    /// - Parameter cursor: the position at which the search begins; nil for the start. The search sets it to the
    ///   position at which the next search continues, or to nil at the end.
    func due(from cursor: inout Cursor?) async throws(Problem) -> [Places.Item]

    /// Leases an item; returns nil if the item is no longer due, or if another worker has it.
    func claim(_ item: Places.Item) async throws(Problem) -> Lease?

    /// Processes an item and releases its lease. The task is cancelled if the lease is lost.
    ///
    /// - Returns: whether to search again immediately.
    func work(on lease: Lease) async throws(Problem) -> Bool

    /// Logs the reason why an item was not claimed or the outcome of its work was not written.
    func report(_ problem: Problem, on item: Places.Item)
}

extension LeasedWorker {
    package var renewal: LeaseRenewal<Lease>? { nil }

    package func report(_ problem: Problem, on item: Places.Item) { loop.noteUnfinished(problem) }

    package func run() async throws { await runUntilShutdown() }

    /// Runs until graceful shutdown.
    ///
    /// At shutdown, no new work begins, and work in progress is completed. Requests that are still in flight after the
    /// grace period are cancelled.
    package func runUntilShutdown() async {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                await self.keepWorking()
                return true
            }
            group.addTask {
                try? await gracefulShutdown()
                await self.loop.end()
                return false
            }
            group.addTask {
                await cancelWhenGracefulShutdown { await self.loop.runSignalLoop() }
                return false
            }
            group.addTask {
                await cancelWhenGracefulShutdown { await self.loop.places.run() }
                return false
            }
            for await hasEnded in group where hasEnded { group.cancelAll() }
        }
    }

    private func keepWorking() async {
        await withDiscardingTaskGroup { tasks in
            var cursor: Cursor?
            for await _ in loop.signal.signals {
                if loop.ends { break }
                if !loop.pace.resumes { cursor = nil }
                await search(from: &cursor, &tasks)
            }
        }
    }

    /// Searches once, and waits for the work on all items that it finds.
    package func find() async {
        await withDiscardingTaskGroup { tasks in
            var cursor: Cursor?
            await search(from: &cursor, &tasks)
        }
    }

    private func search(from cursor: inout Cursor?, _ tasks: inout DiscardingTaskGroup) async {
        repeat {
            do throws(Problem) {
                for item in loop.take(try await due(from: &cursor)) {
                    tasks.addTask { await self.work(on: item) }
                }
            } catch {
                return loop.noteUnfinished(error)
            }
            if cursor != nil, !loop.places.hasRoom {
                loop.noteFull()
                // checked again, because only places that are released after `noteFull` cause a search
                if !loop.places.hasRoom { return }
            }
        } while cursor != nil && !loop.ends
    }

    private func work(on item: Places.Item) async {
        var isMoreDue = false
        do throws(Problem) {
            if let lease = try await claim(item) { isMoreDue = try await hold(lease) }
        } catch {
            report(error, on: item)
        }
        loop.release(item, isMoreDue: isMoreDue)
    }

    /// Processes an item while this worker holds its lease.
    private func hold(_ lease: Lease) async throws(Problem) -> Bool {
        guard let renewal else { return try await work(on: lease) }
        let result = await withTaskGroup(of: Result<Bool, Problem>?.self) { group in
            group.addTask {
                do throws(Problem) {
                    return .success(try await self.work(on: lease))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                await renewal.runRenewalLoop(lease)
                return nil
            }
            var result = Result<Bool, Problem>.success(false)
            for await ended in group {
                group.cancelAll()
                if let ended { result = ended }
            }
            return result
        }
        return try result.get()
    }
}

extension LeasedWorker where Lease == Places.Item {
    /// Returns the item, which the search has already claimed.
    package func claim(_ item: Places.Item) -> Lease? { item }
}

/// The renewal of a worker's lease during long work.
package struct LeaseRenewal<Lease: Sendable>: Sendable {
    private let interval: Double
    private let now: TimeSource
    private let end: @Sendable (Lease) -> Timestamp
    private let renew: @Sendable (Lease) async throws(Problem) -> Timestamp?

    /// - Parameters:
    ///   - interval: the interval between renewals, in seconds.
    ///   - end: returns the time at which a new lease expires.
    ///   - renew: returns the new end of the lease; nil if the lease was lost.
    package init(
        every interval: Double,
        now: @escaping TimeSource,
        end: @escaping @Sendable (Lease) -> Timestamp,
        renew: @escaping @Sendable (Lease) async throws(Problem) -> Timestamp?
    ) {
        (self.interval, self.now, self.end, self.renew) = (interval, now, end, renew)
    }

    /// Renews the lease until it is lost or the task is cancelled.
    fileprivate func runRenewalLoop(_ lease: Lease) async {
        var until = end(lease)
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(interval))
            if Task.isCancelled { return }
            do throws(Problem) {
                guard let renewed = try await renew(lease) else { return }
                until = renewed
            } catch {
                // the renewal is tried again until the lease ends, because until then no other worker can get the item
                if now() >= until { return }
            }
        }
    }
}
