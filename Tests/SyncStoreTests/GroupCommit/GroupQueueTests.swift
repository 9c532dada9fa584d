import Foundation
import SyncModel
import Testing

@testable import GroupCommit

@Suite struct GroupQueueTests {
    private struct Job: GroupJob {
        let lane: LaneKey
        let weight: Int
        let bytes = 1
        let enqueuedAt = ContinuousClock.now
        let isAnswered = false

        func refuse(_ problem: Problem) {}
    }

    /// In earlier versions, the heavy worker ended while the light job waited, and the heavy job got no answer.
    @Test func `a closed queue gives the heavy worker a job that waited behind a light job`() async {
        let queue = GroupQueue<Job>(workers: 1, hasHeavyWorker: true)
        let lane = LaneKey(organization: UUID(), user: UUID())
        for weight in [1, 1_000] { #expect(queue.add(Job(lane: lane, weight: weight), at: .partition(0))) }
        queue.close()
        @Sendable func weights(at worker: Int) async -> [Int] {
            var weights: [Int] = []
            while let group = await queue.next(at: worker) { weights += group.map(\.weight) }
            return weights
        }
        let heavy = Task { await weights(at: 1) }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(await weights(at: 0) == [1])
        #expect(await heavy.value == [1_000])
        #expect(queue.count == 0 && !queue.add(Job(lane: lane, weight: 1), at: .partition(0)))
    }
}
