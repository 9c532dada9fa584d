import Postgres
import TestSupport
import Testing

@testable import GroupCommit

@Suite struct TrafficTests {
    @Test func `a committer's traffic outlives its connections`() async throws {
        let database = try await TestDatabase.make()
        let committer = CommitterConnection(
            ConnectionConfiguration(uri: database.uri, statementTimeout: Waiting.limit)
        )
        let first = try await committer.open()
        _ = try await first.run([.begin, .commit])
        // half of the time is a statement of its own
        _ = try await committer.open(share: 2)
        await first.closeAndWait()
        let second = try await committer.open()
        #expect(first !== second)
        _ = try await second.run([.begin, .rollback])
        #expect(committer.traffic.statements == 5)
        #expect(committer.traffic.roundTrips == 3)
        await second.closeAndWait()
        try await database.close()
    }
}
