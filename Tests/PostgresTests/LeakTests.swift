import Postgres
import TestSupport
import Testing

/// Descriptors and threads are counted in a process that runs nothing else; `make test` and a bare `swift test` run
/// suites side by side, so the connections counted here carry the names of nobody else's threads.
@Suite struct LeakTests {
    @Test func `closed and dropped connections leave no descriptor behind`() async throws {
        let cluster = try await TestCluster.shared()
        let configuration = ConnectionConfiguration(uri: cluster.uri())
        let before = openDescriptors()
        for round in 0..<100 {
            let connection = try await Connection.open(configuration)
            _ = try await connection.run(query("SELECT 1"))
            // Every other one is left to its deinit.
            if round.isMultiple(of: 2) { await connection.closeAndWait() }
        }
        for _ in 0..<20 {
            _ = try? await Connection.open(ConnectionConfiguration(uri: "host=/nowhere"))
        }
        // 100 connections hold 200 descriptors; other suites come and go with fewer.
        #expect(await eventually { openDescriptors() < before + 100 })
        #expect(await eventually { threadNames().count { $0 == "pg-connection" } < 80 })
    }
}
