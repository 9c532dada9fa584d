import TestSupport
import Testing

@testable import Postgres

@Suite struct MigratorTests {
    private static let first = Migration(name: "0001_first", sql: "CREATE TABLE a (n int); CREATE INDEX ON a (n);")
    private static let second = Migration(name: "0002_second", sql: "CREATE TABLE b AS SELECT :count::int AS n")
    @Test func `splits a text exactly at the ends of statements`() {
        let body = "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $a$ BEGIN; RETURN $1 || '$$;'; END; $a$"
        let texts = [
            "-- one; two\nCREATE TABLE \"a;b\" (x text DEFAULT 'it''s; so')", body,
            "\n/* a; /* b; */ c; */ SELECT E'\\';', $$;$$",
            " SELECT a$b, 1 AS ä$",
        ]
        #expect(Migration.statements(in: texts.joined(separator: ";") + "; -- the end;\n") == texts)
        #expect(Migration.statements(in: ";; /* ; */ -- ;") == [])
    }

    private static let both = Migrator(migrations: [second, first], variables: ["count": "16"])

    private func migratorError(_ migrator: Migrator, on connection: Connection) async throws -> MigratorError? {
        do {
            _ = try await migrator.migrate(on: connection)
            return nil
        } catch let error as MigratorError {
            return error
        }
    }

    @Test func `applies pending migrations once and in order`() async throws {
        try await withConnection { connection, _ in
            let before = try await Self.both.status(on: connection)
            #expect(before.applied == [])
            #expect(before.pending == ["0001_first", "0002_second"])
            let applied = try await Self.both.migrate(on: connection)
            #expect(applied == ["0001_first", "0002_second"])
            let again = try await Self.both.migrate(on: connection)
            #expect(again == [])
            let pending = try await Self.both.pending(on: connection)
            #expect(pending == [])
            let rows = try await connection.run(query("SELECT n FROM b"))
            #expect(try rows.read(0, 0, as: Int32.self) == 16)
            #expect(!connection.isInTransaction)
        }
    }

    @Test func `concurrent runners apply each migration once`() async throws {
        try await withConnection { connection, database in
            let slow = Migration(name: "0003_slow", sql: "SELECT pg_sleep(0.3); CREATE TABLE c ()")
            let migrator = Migrator(migrations: [Self.first, Self.second, slow], variables: ["count": "1"])
            let applied = try await withThrowingTaskGroup(of: [String].self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let connection = try await database.connect(settings: [("lock_timeout", "10ms")])
                        let applied = try await migrator.migrate(on: connection)
                        await connection.closeAndWait()
                        return applied
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(applied.sorted() == ["0001_first", "0002_second", "0003_slow"])
        }
    }

    @Test func `refuses a changed text`() async throws {
        try await withConnection { connection, _ in
            _ = try await Self.both.migrate(on: connection)
            let changed = Migration(name: Self.first.name, sql: Self.first.sql + " ")
            let error = try await migratorError(Migrator(migrations: [changed, Self.second]), on: connection)
            #expect(error == .changed("0001_first"))
        }
    }

    @Test func `a migration with corrected comments and the published one accept the same databases`() async throws {
        let published = Migration(name: "0001_first", sql: "-- a\nCREATE TABLE a ()")
        let checksum = "32e12c9d805c7257c7a953065de37cf464519af1698e6cfccc170c6c52826940"
        let corrected = Migration(name: "0001_first", sql: "-- b\nCREATE TABLE a ()", publishedChecksum: checksum)
        for (older, newer) in [(published, corrected), (corrected, published)] {
            try await withConnection { connection, _ in
                _ = try await Migrator(migrations: [older]).migrate(on: connection)
                let rows = try await connection.run(query("SELECT checksum FROM schema_migrations"))
                #expect(try rows.read(0, 0, as: String.self) == checksum)
                let status = try await Migrator(migrations: [newer]).status(on: connection)
                #expect(status.applied == ["0001_first"])
                #expect(status.pending == [])
            }
        }
    }

    @Test func `refuses a checksum that is not the published one`() async throws {
        try await withConnection { connection, _ in
            _ = try await Self.both.migrate(on: connection)
            let other = Migration(
                name: Self.first.name,
                sql: Self.first.sql,
                publishedChecksum: String(repeating: "0", count: 64)
            )
            let error = try await migratorError(Migrator(migrations: [other, Self.second]), on: connection)
            #expect(error == .changed("0001_first"))
        }
    }

    @Test func `other variables do not change the text`() async throws {
        try await withConnection { connection, _ in
            _ = try await Self.both.migrate(on: connection)
            let other = Migrator(migrations: [Self.first, Self.second], variables: ["count": "32"])
            let status = try await other.status(on: connection)
            #expect(status.pending == [])
        }
    }

    @Test func `a failing migration changes nothing, and earlier ones stay`() async throws {
        try await withConnection { connection, _ in
            let broken = Migration(name: "0002_broken", sql: "CREATE TABLE c (); SELECT 1/0;")
            let error = try await migratorError(Migrator(migrations: [Self.first, broken]), on: connection)
            guard case .failed("0002_broken", let cause) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(cause.sqlState == "22012")
            #expect(!connection.isInTransaction)
            let rows = try await connection.run(query("SELECT to_regclass('a') IS NOT NULL, to_regclass('c') IS NULL"))
            #expect(try rows.read(0, 0, as: Bool.self))
            #expect(try rows.read(0, 1, as: Bool.self))
            let status = try await Self.both.status(on: connection)
            #expect(status.pending == ["0002_second"])
        }
    }

    @Test func `does not change a database that a newer build has migrated`() async throws {
        try await withConnection { connection, _ in
            _ = try await Self.both.migrate(on: connection)
            let older = Migrator(migrations: [Self.first])
            let applied = try await older.migrate(on: connection)
            #expect(applied == [])
            let status = try await older.status(on: connection)
            #expect(status.applied == ["0001_first"])
            #expect(status.pending == [])
            #expect(status.unknownNewer == ["0002_second"])
        }
    }

    @Test func `refuses a gap, a missing and a duplicate migration`() async throws {
        try await withConnection { connection, _ in
            _ = try await Migrator(migrations: [Self.first, Migration(name: "0003_third", sql: "")]).migrate(
                on: connection
            )
            let gap = try await migratorError(
                Migrator(migrations: [Self.first, Self.second, Migration(name: "0003_third", sql: "")]),
                on: connection
            )
            #expect(gap == .gap(pending: "0002_second", applied: "0003_third"))
            let missing = try await migratorError(
                Migrator(migrations: [Migration(name: "0003_third", sql: "")]),
                on: connection
            )
            #expect(missing == .missing("0001_first"))
            let doubled = try await migratorError(Migrator(migrations: [Self.first, Self.first]), on: connection)
            #expect(doubled == .duplicate("0001_first"))
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func `a migration waits only briefly for a lock while others wait behind it, and retries`() async throws {
        let database = try await TestDatabase.make()
        let connection = try await database.connect()
        _ = try await Migrator(migrations: [Self.first]).migrate(on: connection)
        let reader = try await database.connect()
        try await reader.execute(script: "BEGIN; SELECT FROM a")
        let alter = Migration(name: "0002_alter", sql: "CREATE TABLE c (n int); ALTER TABLE a ADD COLUMN m int")
        let (waits, tell) = AsyncStream<MigratorError>.makeStream()
        let hasty = MigratorTimeouts(forLock: .milliseconds(50), pause: .milliseconds(50), total: .seconds(300))
        let migration = Task {
            try await Migrator(migrations: [Self.first, alter], timeout: hasty)
                .migrate(on: connection) { tell.yield($0) }
        }
        var seen = 0
        for await wait in waits {
            guard case .failed("0002_alter", let error) = wait else {
                Issue.record("\(wait)")
                break
            }
            #expect(error.sqlState == "55P03")
            seen += 1
            // other sessions proceed between two attempts, and the reader continues
            let writer = try await database.connect(settings: [("lock_timeout", "60s")])
            try await writer.execute(script: "INSERT INTO a VALUES (1)")
            await writer.closeAndWait()
            if seen == 3 { break }
        }
        try await reader.execute(script: "COMMIT")
        #expect(try await migration.value == ["0002_alter"])

        try await reader.execute(script: "BEGIN; SELECT FROM a")
        let third = Migration(name: "0003_alter", sql: "ALTER TABLE a ADD COLUMN o int")
        let brief = MigratorTimeouts(forLock: .milliseconds(50), pause: .milliseconds(10), total: .milliseconds(100))
        let error = await #expect(throws: MigratorError.self) {
            _ = try await Migrator(migrations: [Self.first, alter, third], timeout: brief).migrate(on: connection)
        }
        if case .failed("0003_alter", _) = error {} else { Issue.record("\(String(describing: error))") }
        #expect(!connection.isInTransaction)
        for connection in [connection, reader] { await connection.closeAndWait() }
    }

    @Test func `refuses a migration that commits by itself`() async throws {
        try await withConnection { connection, _ in
            let rogue = Migrator(migrations: [Migration(name: "0001_rogue", sql: "COMMIT")])
            let error = try await migratorError(rogue, on: connection)
            #expect(error == .endedTransaction("0001_rogue"))
        }
    }

    @Test func `replaces only names with a value, and keeps casts`() async throws {
        try await withConnection { connection, _ in
            let sql = "CREATE TABLE v AS SELECT ':n'::text || ':m' AS a, (ARRAY[1,2,3])[1:2] AS b, ':nn' AS c, :n AS d"
            let migrator = Migrator(migrations: [Migration(name: "1", sql: sql)], variables: ["n": "5", "text": "int"])
            _ = try await migrator.migrate(on: connection)
            let rows = try await connection.run(query("SELECT a, c, d FROM v"))
            #expect(try rows.read(0, 0, as: String.self) == "5:m")
            #expect(try rows.read(0, 1, as: String.self) == ":nn")
            #expect(try rows.read(0, 2, as: Int32.self) == 5)
        }
    }
}
