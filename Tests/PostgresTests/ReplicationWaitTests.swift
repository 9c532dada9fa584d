import Postgres
import TestSupport
import Testing

/// Commits that wait for a synchronous standby, which does not exist here.
@Suite struct ReplicationWaitTests {
    @Test func `a commit whose wait is cancelled throws, and the connection stays usable`() async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let administrator = try await Connection.open(ConnectionConfiguration(uri: cluster.uri()))
        _ = try await administrator.run(query("CREATE TABLE t (n int)"))
        _ = try await administrator.run(query("CREATE TABLE probes (n int)"))
        let configuration = ConnectionConfiguration(uri: cluster.uri(), statementTimeout: .milliseconds(500))
        let connection = try await Connection.open(configuration)
        try await administrator.execute(script: "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
        try await administrator.execute(script: "SELECT pg_reload_conf()")
        let shown = query("SELECT current_setting('synchronous_standby_names')")
        try await waitUntil("the server has read its configuration") {
            try await connection.run(shown).read(0, 0, as: String.self) == "absent"
        }
        // the checkpointer reads the configuration later than sessions, and commits wait only after that
        let probe = query("INSERT INTO probes VALUES (1)")
        try await waitUntil("commits wait") { await failure { _ = try await connection.run([probe]) } != nil }
        // an explicit transaction, and an implicit one
        let insert = query("INSERT INTO t VALUES (1)")
        for queries in [[.begin, insert, .commit], [insert]] {
            let error = await failure { _ = try await connection.run(queries) }
            #expect(error?.kind == .unreplicated)
            #expect(error?.isUnavailable == true)
            #expect(connection.isUsable && !connection.isInTransaction)
        }
        // a warning within a transaction concerns no commit
        let warning = query("DO $$ BEGIN RAISE WARNING 'x'; END $$")
        _ = try await connection.run([.begin, warning, .commit])
        #expect(try await connection.run(query("SELECT count(*) FROM t")).read(0, 0, as: Int64.self) == 2)
        try await administrator.execute(script: "ALTER SYSTEM RESET synchronous_standby_names")
        try await administrator.execute(script: "SELECT pg_reload_conf()")
        try await waitUntil("commits do not wait") {
            await failure { _ = try await connection.run([.begin, insert, .commit]) } == nil
        }
        await connection.closeAndWait()
        await administrator.closeAndWait()
        await cluster.close()
    }
}
