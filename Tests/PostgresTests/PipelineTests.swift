import Postgres
import TestSupport
import Testing

@Suite struct PipelineTests {
    @Test func `results are in the order of the queries`() async throws {
        try await withConnection { connection, _ in
            let results = try await connection.run((0..<200).map { n in query("SELECT $1") { $0.add(Int32(n)) } })
            #expect(try results.map { try $0.read(0, 0, as: Int32.self) } == Array(0..<200))
        }
    }

    @Test func `an error names its statement, and the connection stays usable`() async throws {
        try await withConnection { connection, _ in
            let error = await failure {
                _ = try await connection.run([
                    query("CREATE TABLE gone (n int)"), query("SELECT 1 / $1") { $0.add(Int32(0)) }, query("SELECT 3"),
                ])
            }
            #expect(error?.sqlState == "22012")
            #expect(error?.statementIndex == 1)
            #expect(error?.statement == "test: SELECT 1 / $1")
            let rows = try await connection.run(query("SELECT to_regclass('gone') IS NULL"))
            #expect(try rows.read(0, 0, as: Bool.self))
            let after = try await connection.run(query("SELECT 3"))
            #expect(try after.read(0, 0, as: Int32.self) == 3)
        }
    }

    @Test func `traffic counts all sent statements with any outcome`() async throws {
        try await withConnection { connection, _ in
            let before = connection.traffic
            _ = try await connection.run([.begin, query("SELECT 1"), query("SELECT 1"), .commit])
            _ = try await connection.run([])
            _ = await failure { _ = try await connection.run([query("SELECT 1"), query("SELEC"), query("SELECT 2")]) }
            let traffic = connection.traffic - before
            #expect(traffic.statements == 7)
            #expect(traffic.roundTrips == 2)
        }
    }

    @Test func `a syntax error names its statement`() async throws {
        try await withConnection { connection, _ in
            let error = await failure {
                _ = try await connection.run([query("SELECT 1"), query("SELEC"), query("SELECT 2")])
            }
            #expect(error?.sqlState == "42601")
            #expect(error?.statementIndex == 1)
            let results = try await connection.run([query("SELECT 1"), query("SELECT 2")])
            #expect(results.count == 2)
        }
    }

    @Test func `prepares a statement once per connection`() async throws {
        try await withConnection { connection, _ in
            for _ in 0..<3 {
                _ = try await connection.run([
                    query("SELECT $1") { $0.add(Int32(1)) }, query("SELECT $1") { $0.add(Int32(2)) },
                ])
            }
            let rows = try await connection.run(
                query(
                    "SELECT count(*), sum(generic_plans + custom_plans)::int8 FROM pg_prepared_statements WHERE statement = 'SELECT $1'"
                )
            )
            #expect(try rows.read(0, 0, as: Int64.self) == 1)
            #expect(try rows.read(0, 1, as: Int64.self) == 6)
        }
    }

    @Test func `refuses a name used for another text or other types`() async throws {
        try await withConnection { connection, _ in
            _ = try await connection.run(Query(Statement("n", "SELECT 1")))
            let text = await failure { _ = try await connection.run(Query(Statement("n", "SELECT 2"))) }
            #expect(text?.kind == .decoding)
            _ = try await connection.run(query("SELECT $1") { $0.add(Int32(1)) })
            let types = await failure { _ = try await connection.run(query("SELECT $1") { $0.add("x") }) }
            #expect(types?.kind == .decoding)
        }
    }

    @Test func `50 MB of parameters and of results in one pipeline do not deadlock`() async throws {
        try await withConnection { connection, _ in
            let block = [UInt8](repeating: 7, count: 1 << 20)
            let results = try await connection.run(
                (0..<50).map { _ in query("SELECT $1") { $0.add(PostgresBytes(block)) } }
            )
            #expect(results.count == 50)
            #expect(try results[49].read(0, 0, as: [UInt8].self) == block)
            let many = try await connection.run(
                (0..<20_000).map { _ in query("SELECT repeat('x', 2000), $1") { $0.add("y") } }
            )
            #expect(many.count == 20_000)
        }
    }

    @Test func `COMMIT of a failed transaction is an error`() async throws {
        try await withConnection { connection, _ in
            _ = try await connection.run(.begin)
            #expect(connection.isInTransaction)
            _ = await failure { _ = try await connection.run(query("SELECT 1/0")) }
            #expect(connection.isInTransaction)
            let error = await failure { _ = try await connection.run(.commit) }
            #expect(error?.sqlState == "25P02")
            #expect(!connection.isInTransaction)
        }
    }

    @Test func `a script runs all of its statements or none of them`() async throws {
        try await withConnection { connection, _ in
            try await connection.execute(
                script: "CREATE TABLE a (n int); INSERT INTO a VALUES (1), (2); SELECT * FROM a"
            )
            let error = await failure { try await connection.execute(script: "DELETE FROM a; SELECT 1/0") }
            #expect(error?.sqlState == "22012")
            let rows = try await connection.run(query("SELECT count(*) FROM a"))
            #expect(try rows.read(0, 0, as: Int64.self) == 2)
        }
    }

    @Test func `COPY ends the connection with an error`() async throws {
        try await withConnection { connection, _ in
            let error = await failure { try await connection.execute(script: "COPY (SELECT 1) TO STDOUT") }
            #expect(error?.kind == .connectionLost)
            #expect(!connection.isUsable)
        }
    }

    @Test func `concurrent calls run in sequence`() async throws {
        try await withConnection { connection, _ in
            try await withThrowingTaskGroup(of: Int32.self) { group in
                for n in 0..<100 {
                    group.addTask {
                        try await connection.run(query("SELECT $1") { $0.add(Int32(n)) }).read(0, 0, as: Int32.self)
                    }
                }
                let sum = try await group.reduce(0, +)
                #expect(sum == 4950)
            }
        }
    }

    @Test func `settings and the application name reach the server`() async throws {
        try await withConnection { _, database in
            let connection = try await Connection.open(
                ConnectionConfiguration(uri: database.uri, settings: [("lock_timeout", "1234ms")])
            )
            let rows = try await connection.run(
                query(
                    "SELECT current_setting('lock_timeout'), current_setting('application_name'), current_setting('statement_timeout')"
                )
            )
            #expect(try rows.read(0, 0, as: String.self) == "1234ms")
            #expect(try rows.read(0, 1, as: String.self) == "sluice")
            #expect(try rows.read(0, 2, as: String.self) == "10s")
            await connection.closeAndWait()
        }
    }

    @Test func `notices and notifications reach their handlers`() async throws {
        let database = try await TestDatabase.make()
        let (notices, notice) = AsyncStream.makeStream(of: String.self)
        let (notifications, notification) = AsyncStream.makeStream(of: ConnectionConfiguration.Notification.self)
        let configuration = ConnectionConfiguration(
            uri: database.uri,
            onNotice: { notice.yield($0) },
            onNotification: { notification.yield($0) }
        )
        let connection = try await Connection.open(configuration)
        try await connection.execute(script: "LISTEN changes; DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
        var noticed = notices.makeAsyncIterator()
        #expect(await noticed.next()?.contains("hello") == true)
        let other = try await database.connect()
        try await other.execute(script: "NOTIFY changes, 'now'")
        var notified = notifications.makeAsyncIterator()
        let received = await notified.next()
        #expect(received?.channel == "changes")
        #expect(received?.payload == "now")
    }
}
