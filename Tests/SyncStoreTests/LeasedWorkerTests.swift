import Foundation
import Logging
import ServiceLifecycle
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncStore

/// The loop of workers, with items in memory and pauses that the test ends.
@Suite struct LeasedWorkerTests {
    private struct Item: WorkItem, Hashable {
        let organization: UUID
        let name: String
    }

    /// Two places for concurrent items.
    private final class TwoPlaces: WorkPlaces {
        let held = Mutex<[Item]>([])

        var hasRoom: Bool { held.withLock { $0.count < 2 } }

        func take(_ items: [Item]) -> (taken: [Item], isCrowded: Bool) {
            held.withLock { held in
                let new = items.filter { !held.contains($0) }
                let taken = Array(new.prefix(2 - held.count))
                held += taken
                return (taken, taken.count < new.count)
            }
        }

        func release(_ item: Item) { held.withLock { $0.removeAll { $0 == item } } }
    }

    private final class Worker: LeasedWorker {
        let loop: WorkerLoop<TwoPlaces>
        let items: Mutex<[Item]>
        let begun = Mutex<[String]>([])
        let isHeld = Atomic(true)
        let renewInterval: Double?
        let body: @Sendable (Worker, Item) async -> Void

        init(
            _ items: [Item],
            renewInterval: Double? = nil,
            _ configure: (inout WorkerPace) -> Void = { _ in },
            body: @escaping @Sendable (Worker, Item) async -> Void
        ) {
            self.items = Mutex(items)
            self.renewInterval = renewInterval
            self.body = body
            var pace = WorkerPace(interval: 0.02, unfinished: "Due items could not be queried")
            configure(&pace)
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            loop = WorkerLoop(TwoPlaces(), pace: pace, logger: logger)
        }

        var renewal: LeaseRenewal<Item>? {
            let end = Timestamp(microseconds: 60_000_000)
            return renewInterval.map { interval in
                LeaseRenewal(every: interval, now: { Timestamp(microseconds: 0) }, end: { _ in end }) { _ in
                    self.isHeld.load(ordering: .relaxed) ? end : nil
                }
            }
        }

        func due(from cursor: inout Int?) -> [Item] {
            items.withLock { items in
                let page = Array(items.dropFirst(cursor ?? 0).prefix(2))
                let next = (cursor ?? 0) + page.count
                cursor = next < items.count ? next : nil
                return page
            }
        }

        func claim(_ item: Item) -> Item? { items.withLock { $0.contains(item) } ? item : nil }

        func work(on item: Item) async -> Bool {
            begun.withLock { $0.append(item.name) }
            await body(self, item)
            items.withLock { $0.removeAll { $0 == item } }
            return false
        }

        func report(_ problem: Problem, on item: Item) {}
    }

    /// Suspends its callers until it is opened.
    private final class Gate: Sendable {
        private let isOpen = Atomic(false)

        func open() { isOpen.store(true, ordering: .releasing) }

        func pass() async {
            while !isOpen.load(ordering: .acquiring), !Task.isCancelled { try? await Task.sleep(for: .milliseconds(5)) }
        }
    }

    private static func items(_ count: Int) -> [Item] {
        (0..<count).map { Item(organization: UUID(), name: "\($0)") }
    }

    private func start(_ worker: Worker) -> (group: ServiceGroup, run: Task<Void, Never>) {
        let group = ServiceGroup(services: [worker], logger: Logger(label: "test"))
        return (group, Task { try? await group.run() })
    }

    @Test func `a released place goes to a waiting item without another pause`() async throws {
        let worker = Worker(Self.items(4)) { pace in
            pace.refills = true
            pace.sleep = { _ in try? await Task.sleep(for: .seconds(3_600)) }
        } body: { _, _ in
            try? await Task.sleep(for: .milliseconds(20))
        }
        let (group, run) = start(worker)
        try await waitUntil("all are done") { worker.items.withLock { $0.isEmpty } }
        #expect(worker.begun.withLock { Set($0) } == ["0", "1", "2", "3"])
        await group.triggerGracefulShutdown()
        await run.value
    }

    @Test func `a search that resumes continues after the items without a place`() async throws {
        let gate = Gate()
        let worker = Worker(Self.items(4)) {
            $0.resumes = true
        } body: { _, item in
            if item.name == "0" || item.name == "1" { await gate.pass() }
        }
        let (group, run) = start(worker)
        try await waitUntil("both places are taken") { !worker.loop.places.hasRoom }
        gate.open()
        try await waitUntil("all are done") { worker.items.withLock { $0.isEmpty } }
        await group.triggerGracefulShutdown()
        await run.value
    }

    @Test func `work is cancelled when its lease is lost`() async throws {
        let isCancelled = Atomic(false)
        let worker = Worker(Self.items(1), renewInterval: 0.01) { _, _ in
            try? await Task.sleep(for: .seconds(3_600))
            isCancelled.store(Task.isCancelled, ordering: .relaxed)
        }
        let (group, run) = start(worker)
        try await waitUntil("it is running") { worker.begun.withLock { !$0.isEmpty } }
        worker.isHeld.store(false, ordering: .relaxed)
        try await waitUntil("it has ended") { isCancelled.load(ordering: .relaxed) }
        await group.triggerGracefulShutdown()
        await run.value
    }

    @Test func `a shutdown waits for requests in flight until the grace period ends`() async throws {
        let answers = Mutex<[String]>([])
        let grace = Gate()
        let worker = Worker(Self.items(1)) { pace in
            pace.grace = 600
            pace.sleep = { seconds in
                if seconds == 600 { await grace.pass() } else { try? await Task.sleep(for: .seconds(seconds)) }
            }
        } body: { worker, _ in
            let answer = await worker.loop.send {
                try? await Task.sleep(for: .seconds(3_600))
                return Task.isCancelled ? "cancelled" : "answered"
            }
            answers.withLock { $0.append(answer) }
        }
        let (group, run) = start(worker)
        try await waitUntil("it is running") { worker.begun.withLock { !$0.isEmpty } }
        await group.triggerGracefulShutdown()
        try await waitUntil("nothing more begins") { worker.loop.drains }
        #expect(answers.withLock { $0.isEmpty })
        grace.open()
        await run.value
        #expect(answers.withLock { $0 } == ["cancelled"])
    }
}
