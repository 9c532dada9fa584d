import FoundationEssentials
package import Logging
package import Postgres
package import SyncModel
import Synchronization

/// The times at which a ``LeasedWorker`` searches, and its grace period at shutdown.
package struct WorkerPace: Sendable {
    /// The interval at which the database is searched, in seconds, before jitter.
    package var interval: Double
    /// The message that is logged if a search fails. By default it is also logged if the work on an item fails.
    package var unfinished: Logger.Message
    /// Whether the next search continues at the cursor of the last search, instead of the start, if some items of that
    /// search got no place.
    package var resumes: Bool
    /// Whether a released place is assigned to a waiting item immediately, instead of by the next search.
    package var refills: Bool
    /// The seconds for which requests in flight may continue once the gateway shuts down.
    package var grace: Double
    /// Pauses for a number of seconds, unless the task is cancelled.
    package var sleep: @Sendable (Double) async -> Void = { try? await Task.sleep(for: .seconds($0)) }

    package init(
        interval: Double,
        unfinished: Logger.Message,
        resumes: Bool = false,
        refills: Bool = false,
        grace: Double = 0
    ) {
        self.interval = interval
        self.unfinished = unfinished
        self.resumes = resumes
        self.refills = refills
        self.grace = grace
    }
}

/// The state of a ``LeasedWorker``: its places, its wake-ups, and its requests in flight.
package final class WorkerLoop<Places: WorkPlaces>: Sendable {
    private struct InFlight {
        var cancels: [UUID: @Sendable () -> Void] = [:]
        var isCancelled = false
    }

    package let places: Places
    let pace: WorkerPace
    private let logger: Logger
    let signal = CoalescedSignal()
    /// Whether an item waits for a place.
    private let isFull = Atomic(false)
    private let isDraining = Atomic(false)
    private let inFlight = Mutex(InFlight())

    package init(_ places: Places, pace: WorkerPace, logger: Logger) {
        self.places = places
        self.pace = pace
        self.logger = logger
    }

    /// Whether the gateway shuts down, so that no new work begins.
    package var drains: Bool { isDraining.load(ordering: .relaxed) }
    /// Whether the gateway shuts down, or the task is cancelled.
    package var ends: Bool { drains || Task.isCancelled }

    /// Searches immediately. Wake-ups coalesce.
    package func wake() { signal.send() }

    /// Runs a request in a separate task. The task is cancelled when the grace period ends.
    package func send<Answer: Sendable>(_ request: @escaping @Sendable () async -> Answer) async -> Answer {
        let task = Task { await request() }
        let id = UUID()
        let isCancelled = inFlight.withLock { inFlight in
            inFlight.cancels[id] = { task.cancel() }
            return inFlight.isCancelled
        }
        defer { inFlight.withLock { $0.cancels[id] = nil } }
        if isCancelled { task.cancel() }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Writes the outcome of work.
    ///
    /// While the database is unavailable, the write is repeated. Once the gateway shuts down, it is repeated only a few
    /// times.
    ///
    /// - Parameter drainAttempts: the number of attempts once the gateway shuts down or the task is cancelled.
    package func write<Value: Sendable>(
        _ retry: Retry = Retry(20, milliseconds: 250...750),
        drainAttempts: Int = 5,
        _ body: () async throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        try await retry.run { (_: Problem, failures) in
            failures < drainAttempts || !ends
        } _: { () async throws(Problem) -> Value in
            try await body()
        }
    }

    func take(_ items: [Places.Item]) -> [Places.Item] {
        let (taken, isCrowded) = places.take(items)
        if isCrowded { noteFull() }
        return taken
    }

    func noteUnfinished(_ problem: Problem) {
        logger.debug(pace.unfinished, metadata: ["reason": "\(problem.detail)"])
    }

    func noteFull() { isFull.store(true, ordering: .relaxed) }

    func release(_ item: Places.Item, isMoreDue: Bool) {
        places.release(item)
        let isWaitedFor = isFull.exchange(false, ordering: .relaxed) && pace.refills
        if isMoreDue || isWaitedFor { wake() }
    }

    /// Begins no new work, and cancels requests in flight after the grace period.
    func end() async {
        isDraining.store(true, ordering: .relaxed)
        wake()
        if pace.grace > 0 { await pace.sleep(pace.grace) }
        let cancels = inFlight.withLock { inFlight in
            inFlight.isCancelled = true
            return Array(inFlight.cancels.values)
        }
        for cancel in cancels { cancel() }
    }

    func runSignalLoop() async {
        while !Task.isCancelled {
            wake()
            // a random interval, so that replicas that were started together search at different times
            await pace.sleep(pace.interval * Double.random(in: 0.8...1.2))
        }
    }
}
