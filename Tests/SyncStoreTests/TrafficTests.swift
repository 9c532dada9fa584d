import Postgres
import TestSupport
import Testing

@testable import GroupCommit

@Suite struct TrafficTests {
    @Test func `a group goes to the server that has it, and where that is not reached by way of the usual one`()
        async throws
    {
        let database = try await TestDatabase.make()
        let committer = CommitterConnection(
            ConnectionConfiguration(uri: database.uri, statementTimeout: Waiting.limit)
        )
        let usual = try await committer.open()
        // nobody listens there
        committer.turn(to: ServerAddress(host: "127.0.0.1", port: 1))
        #expect(try await committer.open() === usual)
        #expect(try await committer.open(share: 2) === usual)
        // the same server by another name
        let folder = try #require(database.uri.firstMatch(of: /host=([^&]+)/)).output.1
        committer.turn(to: ServerAddress(host: String(folder) + "/.", port: 5_432))
        let direct = try await committer.open(share: 2)
        #expect(direct !== usual)
        _ = try await direct.run([.begin, .commit])
        #expect(try await committer.open(share: 2) === direct)
        committer.turn(to: nil)
        #expect(try await committer.open() === usual)
        // two settings of a statement's time on the one, one on the other
        #expect(committer.traffic.statements == 5)
        committer.close()
        await usual.closeAndWait()
        await direct.closeAndWait()
        try await database.close()
    }

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
