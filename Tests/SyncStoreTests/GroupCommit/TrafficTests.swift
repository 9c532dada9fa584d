import Postgres
import Synchronization
import TestSupport
import Testing

@testable import GroupCommit

@Suite struct TrafficTests {
    @Test(.onOneServer("uses a server with two names"))
    func `a group is sent to its server, or to the usual server if its server is unreachable`()
        async throws
    {
        let database = try await TestDatabase.make()
        var configuration = ConnectionConfiguration(uri: database.uri, statementTimeout: Waiting.limit)
        configuration.dialect = Dialect(
            detection: Statement("test_question", "SELECT true"),
            identity: Statement("test_identity", "SELECT 'meant'"),
            settings: [],
            translation: { $0 }
        )
        let detours = Mutex<[String]>([])
        let committer = CommitterConnection(
            configuration,
            onFallback: { server, error in detours.withLock { $0.append("\(server): \(error.message)") } }
        )
        let usual = try await committer.open()
        // no server listens there
        committer.selectServer(ServerAddress(host: "127.0.0.1", port: 1, identity: "meant"))
        #expect(try await committer.open() === usual)
        #expect(try await committer.open(timeoutDivisor: 2) === usual)
        // the same server under other names, one of which identifies another server
        let folder = try #require(database.uri.firstMatch(of: /host=([^&]+)/)).output.1
        committer.selectServer(ServerAddress(host: "\(folder)/./.", port: 5_432, identity: "another"))
        #expect(try await committer.open(timeoutDivisor: 2) === usual)
        committer.selectServer(ServerAddress(host: "\(folder)/.", port: 5_432, identity: "meant"))
        let direct = try await committer.open(timeoutDivisor: 2)
        #expect(direct !== usual)
        _ = try await direct.run([.begin, .commit])
        #expect(try await committer.open(timeoutDivisor: 2) === direct)
        #expect(detours.withLock { $0.count } == 2)
        let other = "\(folder)/./.:5432"
        #expect(detours.withLock { $0.last } == "\(other): a different server answers at \(other)")
        committer.selectServer(nil)
        #expect(try await committer.open() === usual)
        // the statement timeout was set twice on one connection, and once on the other
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
        // setting half of the timeout is a separate statement
        _ = try await committer.open(timeoutDivisor: 2)
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
