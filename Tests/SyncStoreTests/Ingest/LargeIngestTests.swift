import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Batches of small events for large documents.
@Suite struct LargeIngestTests {
    private typealias Source = EventSource

    /// Stores documents of about a megabyte each.
    ///
    /// The documents are written by SQL, because an event of this size is refused. In production, patches make
    /// documents this large.
    private func store(_ count: Int, by source: Source) async throws {
        let events = (0..<count).map { Source.event("made-\($0)", "\($0)", version: 1) }
        #expect(try await source.results(events).allSatisfy { $0 == "applied" })
        let connection = try await source.gateway.database.connect()
        try await connection.execute(
            script: """
                UPDATE entities SET document = json_build_object('text', repeat('lorem ipsum ', 80000))
                WHERE organization_id = '\(source.organization.id)'
                """
        )
        await connection.closeAndWait()
    }

    private func patches(_ count: Int, of entity: (Int) -> Int, version: Int64 = 10) -> [String] {
        (0..<count).map { number in
            Source.event(
                "patch-\(version)-\(number)",
                "patch",
                "\(entity(number))",
                version: version + Int64(number),
                #"{"n":\#(number),"m\#(number % 7)":true}"#
            )
        }
    }

    private func request(_ events: [String]) throws -> IngestRequest {
        try IngestRequest(body: Array(#"{"events":[\#(events.joined(separator: ","))]}"#.utf8), limits: IntakeLimits())
    }

    private func bearer(_ source: Source) -> IngestBearer {
        IngestBearer(
            organization: source.organization.id,
            tokenID: UUID(),
            source: source.name,
            isFirstUse: false
        )
    }

    @Test func `500 patches of one large document cause one write`() async throws {
        let gateway = try await Gateway()
        let source = Source(gateway, try await gateway.organization())
        try await store(1, by: source)
        let results = try await source.send(patches(500) { _ in 0 })
        #expect(results.allSatisfy { $0["result"]?.string == "applied" })
        #expect(results.map { $0["version"]?.int64 } == (2...501).map { Int64($0) })
        let changes = try await Phone(gateway, source.organization).pull()
        #expect(changes.count == 1 && changes[0].version == 501)
        let document = changes[0]["document"]
        #expect(document?["n"]?.int64 == 499 && document?["m6"]?.bool == true)
        #expect(document?["text"]?.string?.utf8.count == 960_000)
    }

    /// Every batch of one organization is heavy, and batches follow each other without a pause. Events of other
    /// organizations are still accepted.
    @Test func `large batches of two organizations do not block others`() async throws {
        let gateway = try await Gateway()
        let loud = [
            Source(gateway, try await gateway.organization()), Source(gateway, try await gateway.organization()),
        ]
        let quiet = Source(gateway, try await gateway.organization())
        for source in loud { try await store(2, by: source) }
        let isOver = Flag()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for source in loud {
                group.addTask {
                    var count = 0
                    while !isOver.isRaised || count == 0 {
                        let events = patches(100, of: { $0 % 2 }, version: Int64(1_000 * (count + 1)))
                        let results = try await source.results(events)
                        #expect(results.allSatisfy { $0 == "applied" })
                        count += 1
                    }
                    return count
                }
            }
            for number in 0..<60 {
                let results = try await quiet.results([Source.event("\(number)", "\(number)", version: 1)])
                #expect(results == ["applied"])
            }
            isOver.raise()
            for try await count in group { #expect(count > 0) }
        }
    }

    @Test func `a batch with much work is applied in parts and in order`() async throws {
        let gateway = try await Gateway()
        let source = Source(gateway, try await gateway.organization())
        try await store(14, by: source)
        // the batch patches all documents twice, so that each document is changed in two places of the batch
        let batch = try request(patches(28) { $0 % 14 })
        let answer = try await gateway.store.ingest.submit(batch, from: bearer(source))
        #expect(answer.verdicts.map(\.result) == Array(repeating: .applied, count: 28))
        #expect(answer.verdicts.map(\.version) == Array(repeating: 2, count: 14) + Array(repeating: 3, count: 14))
        let again = try await gateway.store.ingest.submit(batch, from: bearer(source))
        #expect(again.verdicts.allSatisfy { $0.result == .duplicate })
        let changes = try await Phone(gateway, source.organization).pull()
        #expect(changes.map { $0["document"]?["n"]?.int64 } == (14..<28).map { Int64($0) })
        #expect(answer.feed == again.feed)
    }

    @Test func `refuses a batch that changes too much, and accepts its halves`() async throws {
        let gateway = try await Gateway()
        let source = Source(gateway, try await gateway.organization())
        try await store(80, by: source)
        let batch = try request(patches(80) { $0 })
        for _ in 0..<2 {
            let problem = await #expect(throws: Problem.self) {
                try await gateway.store.ingest.submit(batch, from: bearer(source))
            }
            #expect(problem?.code == .payloadTooLarge)
            #expect(problem?.detail.contains("at most 67108864 are allowed") == true, "\(problem?.detail ?? "")")
        }
        let changed = try await gateway.read("SELECT count(*) FROM entities WHERE version <> 1")
        #expect(try changed.read(0, 0, as: Int64.self) == 0)
        let answer = try await gateway.store.ingest.submitHalving(batch, from: bearer(source))
        #expect(answer.verdicts.count == 80 && answer.verdicts.allSatisfy { $0.result == .applied && $0.version == 2 })
        // events that were applied before do not count
        let again = try await gateway.store.ingest.submit(batch, from: bearer(source))
        #expect(again.verdicts.allSatisfy { $0.result == .duplicate })
    }

    @Test func `large documents replaced as a whole are compared and written in parts`() async throws {
        let gateway = try await Gateway()
        let source = Source(gateway, try await gateway.organization())
        try await store(10, by: source)
        let events = (0..<10).map { Source.event("small-\($0)", "\($0)", version: 2, #"{"n":\#($0)}"#) }
        #expect(try await source.results(events).allSatisfy { $0 == "applied" })
        #expect(
            try await Phone(gateway, source.organization).pull().map { $0["document"]?["n"]?.int64 }
                == (0..<10).map { Int64($0) }
        )
    }
}
