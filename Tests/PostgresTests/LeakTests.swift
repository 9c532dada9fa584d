import Postgres
import TestSupport
import Testing

/// Descriptors and threads are counted in a process that runs nothing else. `make test` and a bare `swift test` run
/// suites in parallel, so the counted connections have thread names that no other suite uses.
@Suite struct LeakTests {
    @Test func `closed and dropped connections leave no descriptor open`() async throws {
        let cluster = try await TestCluster.shared()
        let configuration = ConnectionConfiguration(uri: cluster.uri())
        let before = openDescriptors()
        for round in 0..<100 {
            let connection = try await Connection.open(configuration)
            _ = try await connection.run(query("SELECT 1"))
            // every other connection is closed by its deinit
            if round.isMultiple(of: 2) { await connection.closeAndWait() }
        }
        for _ in 0..<20 {
            _ = try? await Connection.open(ConnectionConfiguration(uri: "host=/nowhere"))
        }
        // 100 connections hold 200 descriptors; other suites open and close fewer
        #expect(await eventually { openDescriptors() < before + 100 })
        #expect(await eventually { threadNames().count { $0 == "pg-connection" } < 80 })
    }
}
