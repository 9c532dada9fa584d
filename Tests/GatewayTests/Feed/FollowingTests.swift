import Foundation
import GatewaySupport
import JSONText
import SyncModel
import Synchronization
import TestSupport
import Testing

/// Clients that follow events and the feed while their gateways are killed.
@Suite(.serialized, .timeLimit(.minutes(10))) struct FollowingTests {
    private static let mutations = 120

    /// The writer's progress, as the followers use it.
    private final class Progress: Sendable {
        private let created = Mutex<[String]?>(nil)

        /// The ids of all entities, once the writer has finished.
        var entities: [String]? { created.withLock { $0 } }
        func finish(_ ids: [String]) { created.withLock { $0 = ids } }
    }

    @Test(arguments: [UInt64.random(in: 0...999_999)])
    func `followers miss no event or change while gateways are killed`(seed: UInt64) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let worker = try await SingleWorker(gateways[0])
        let drafts = (1...Self.mutations).map { worker.draft(Int64($0)) }
        let progress = Progress()
        let opening = try #require(
            try await EventListener(gateways[1].address, token: worker.token).next()?.id
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await Self.write(drafts, worker, gateways, progress, SeededRandom(seed)) }
            group.addTask { try await Self.listen(from: opening, drafts, worker, gateways) }
            group.addTask { try await Self.pull(worker, gateways, progress) }
            group.addTask {
                var generator = SeededRandom(seed &+ 1)
                while progress.entities == nil {
                    try await Task.sleep(for: .milliseconds(Int.random(in: 100...600, using: &generator)))
                    let victim = gateways[Int.random(in: 0...1, using: &generator)]
                    try await victim.crash()
                    try victim.restart()
                    try await victim.waitUntilReady()
                }
            }
            try await group.waitForAll()
        }
        for gateway in gateways { #expect(try await gateway.terminate() == 0) }
    }

    /// Pushes a few at a time, and repeats each push until it is answered.
    private static func write(
        _ drafts: [Draft],
        _ worker: SingleWorker,
        _ gateways: [GatewayProcess],
        _ progress: Progress,
        _ generator: SeededRandom
    ) async throws {
        var generator = generator
        var rest = drafts[...]
        var entities: [String] = []
        while !rest.isEmpty {
            let batch = Array(rest.prefix(Int.random(in: 1...4, using: &generator)))
            let gateway = gateways[Int.random(in: 0...1, using: &generator)]
            let reply = try? await GatewayProcess.post(
                gateway.address + "/v1/mutations",
                token: worker.token,
                body: worker.envelope(batch)
            )
            guard let reply, reply.status == 200 else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            entities += reply.results.compactMap { $0["server_id"]?.string }
            rest = rest.dropFirst(batch.count)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...40, using: &generator)))
        }
        progress.finish(entities)
    }

    /// Listens, and reconnects to any available gateway until all mutations have arrived.
    private static func listen(
        from opening: String,
        _ drafts: [Draft],
        _ worker: SingleWorker,
        _ gateways: [GatewayProcess]
    ) async throws {
        var (last, turn) = (opening, 0)
        var (seen, mapped): ([String], Set<String>) = ([], [])
        while seen.count < drafts.count || mapped.count < drafts.count {
            turn += 1
            guard
                let events = try? await EventListener(
                    gateways[turn % 2].address,
                    token: worker.token,
                    after: last,
                    client: GatewayProcess.client
                ), events.status == 200
            else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            while let frame = try await events.next() {
                last = frame.id ?? last
                if frame.event == "mutation", frame.data?["status"]?.string == "succeeded" {
                    seen.append(frame.data?["id"]?.string ?? "-")
                }
                if frame.event == "id_mapping" { mapped.insert(frame.summary) }
                if seen.count >= drafts.count, mapped.count >= drafts.count { break }
            }
        }
        #expect(seen == drafts.map(\.id), "each once and in order")
    }

    /// Pulls with a wait at alternating gateways until the feed has returned all entities.
    private static func pull(_ worker: SingleWorker, _ gateways: [GatewayProcess], _ progress: Progress) async throws {
        var (since, turn) = ("", 0)
        var seen: [String] = []
        while true {
            turn += 1
            let isLast = progress.entities != nil
            let url = gateways[turn % 2].address + "/v1/changes?limit=7&wait=1" + since
            guard let reply = try? await GatewayProcess.get(url, token: worker.token), reply.status == 200,
                let next = reply.next
            else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            seen += reply.changes.compactMap { $0["id"]?.string }
            since = "&since=" + next
            if isLast, reply.changes.isEmpty { break }
        }
        #expect(seen == progress.entities, "each once and in order")
    }
}
