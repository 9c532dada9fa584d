import Foundation
import TestSupport
import Testing

@testable import Postgres

/// A real server's changes, read by a slot.
@Suite(.serialized) struct ReplicationStreamTests {
    private typealias Entry = ReplicationStream.Entry

    /// A server with logical decoding, a table of all relevant types, and a slot.
    private struct Elsewhere {
        let cluster: TestCluster
        let connection: Connection
        let settings: ConnectionConfiguration
        var source = ReplicationStream.Source(slot: "sluice", publications: ["it's \"one\" here", "others"])

        init() async throws {
            cluster = try await TestCluster.dedicated()
            settings = ConnectionConfiguration(
                uri: cluster.uri(),
                connectTimeout: Waiting.limit,
                statementTimeout: .zero
            )
            var connection = try await Connection.open(settings)
            try await connection.execute(script: "ALTER SYSTEM SET wal_level = logical")
            await connection.closeAndWait()
            try await cluster.stop()
            try await cluster.start()
            connection = try await Connection.open(settings)
            self.connection = connection
            try await connection.execute(
                script: """
                    CREATE TABLE contact (id int8 PRIMARY KEY, name text, at timestamptz, data bytea, big text);
                    CREATE TABLE whole (a int4, b text);
                    ALTER TABLE whole REPLICA IDENTITY FULL;
                    CREATE TABLE unpublished (filler text);
                    CREATE PUBLICATION "it's ""one"" here" FOR TABLE contact, whole;
                    CREATE PUBLICATION others;
                    """
            )
            _ = try await connection.run(query("SELECT pg_create_logical_replication_slot('sluice', 'pgoutput')"))
        }

        func open() async throws -> ReplicationStream { try await ReplicationStream.open(settings, source) }

        func run(_ sql: String) async throws { try await connection.execute(script: sql) }

        /// The position up to which the server may drop its log.
        func confirmed() async throws -> LogPosition {
            let rows = try await connection.run(
                query("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'sluice'")
            )
            return try #require(LogPosition(try rows.read(0, 0, as: String.self)))
        }

        /// Closes a stream, and waits until the server has released its slot.
        func close(_ stream: ReplicationStream) async throws {
            await stream.closeAndWait()
            let active = query("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'sluice' AND active")
            #expect(try await eventually { try await connection.run(active).read(0, 0, as: Int64.self) == 0 })
        }

        /// The server's write position.
        func end() async throws -> LogPosition {
            let rows = try await connection.run(query("SELECT pg_current_wal_lsn()::text"))
            return try #require(LogPosition(try rows.read(0, 0, as: String.self)))
        }
    }

    /// Reads entries until this many transactions have ended.
    private static func transactions(_ count: Int, _ stream: ReplicationStream) async throws -> [Entry] {
        var found: [Entry] = []
        var ended = 0
        while ended < count {
            let entries = try await stream.next()
            ended += entries.count { if case .commit = $0.message { true } else { false } }
            found += entries
        }
        return found
    }

    private static func text(_ value: ReplicationValue) -> String {
        switch value {
        case .null: "null"
        case .unchanged: "unchanged"
        case .text(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    /// A line for each change of a row.
    private static func lines(_ entries: [Entry]) -> [String] {
        var names: [UInt32: String] = [:]
        return entries.compactMap { entry -> String? in
            switch entry.message {
            case .relation(let relation):
                names[relation.id] = relation.name
                return nil
            case .insertion(let table, let new): return "\(names[table] ?? "?") \(new.map(text).joined(separator: ","))"
            case .row(let table, let old, let new):
                let before = old.map { " was " + $0.map(text).joined(separator: ",") } ?? ""
                return "\(names[table] ?? "?") \(new.map(text).joined(separator: ","))\(before)"
            case .deletion(let table, let old):
                return "\(names[table] ?? "?") gone \(old.map(text).joined(separator: ","))"
            case .truncation(let tables): return "empty \(tables.map { names[$0] ?? "?" }.joined(separator: ","))"
            case .begin, .commit, .other: return nil
            }
        }
    }

    @Test func `delivers committed changes in order, as written`() async throws {
        let there = try await Elsewhere()
        let stream = try await there.open()
        try await there.run("SET timezone = 'Asia/Kolkata'; SET datestyle = 'German'; SET bytea_output = 'escape'")
        try await there.run(
            "INSERT INTO contact VALUES (1, 'Kåre ''x''', '2026-11-24T10:00:00.5+05:30', '\\x00ff', repeat('a', 9))"
        )
        try await there.run("UPDATE contact SET name = NULL; UPDATE contact SET id = 2; DELETE FROM contact")
        try await there.run("INSERT INTO whole VALUES (1, 'x'); UPDATE whole SET b = ''; DELETE FROM whole")
        try await there.run("TRUNCATE whole")
        let entries = try await Self.transactions(4, stream)
        let row = "2026-11-24 04:30:00.5+00,\\x00ff,aaaaaaaaa"
        #expect(
            Self.lines(entries) == [
                "contact 1,Kåre 'x',\(row)", "contact 1,null,\(row)", "contact 2,null,\(row) was 1,null,null,null,null",
                "contact gone 2,null,null,null,null", "whole 1,x", "whole 1, was 1,x", "whole gone 1,", "empty whole",
            ]
        )
        let positions = entries.map(\.position).filter { $0 > .zero }
        #expect(positions == positions.sorted())
        let contact = try #require(entries.compactMap(\.message.relation).first)
        #expect(contact.schema == "public")
        #expect(contact.columns.map(\.name) == ["id", "name", "at", "data", "big"])
        #expect(contact.columns.map(\.isKey) == [true, false, false, false, false])
        #expect(contact.columns.map(\.type) == [20, 25, 1184, 17, 25])
        await stream.closeAndWait()
    }

    @Test func `omits a large unchanged value`() async throws {
        let there = try await Elsewhere()
        let stream = try await there.open()
        try await there.run("ALTER TABLE contact ALTER big SET STORAGE EXTERNAL")
        try await there.run("INSERT INTO contact (id, big) VALUES (1, repeat('b', 20000))")
        try await there.run("UPDATE contact SET name = 'n'")
        let lines = Self.lines(try await Self.transactions(2, stream))
        #expect(lines[0].count > 20_000)
        #expect(lines[1] == "contact 1,n,null,null,unchanged")
        await stream.closeAndWait()
    }

    @Test func `repeats only what was not confirmed`() async throws {
        let there = try await Elsewhere()
        var stream = try await there.open()
        for id in 1...3 { try await there.run("INSERT INTO contact (id) VALUES (\(id))") }
        let entries = try await Self.transactions(3, stream)
        let ends = entries.compactMap(\.message.end)
        #expect(try await there.confirmed() < ends[0])
        stream.confirm(ends[1])
        #expect(try await eventually { try await there.confirmed() >= ends[1] })
        try await there.close(stream)
        stream = try await there.open()
        let again = try await Self.transactions(1, stream)
        #expect(Self.lines(again) == ["contact 3,null,null,null,null"])
        #expect(again.last == entries.last)
        await stream.closeAndWait()
    }

    @Test func `a server may drop log of unpublished changes`() async throws {
        let there = try await Elsewhere()
        let stream = try await there.open()
        try await there.run("INSERT INTO contact (id) VALUES (1)")
        let entries = try await Self.transactions(1, stream)
        try await there.run("INSERT INTO unpublished SELECT repeat('x', 100) FROM generate_series(1, 10000)")
        let end = try await there.end()
        // the delivered transaction is not confirmed, so nothing after it may be confirmed either
        #expect(try await there.confirmed() < (entries.compactMap(\.message.end).last ?? .zero))
        stream.confirm(entries.compactMap(\.message.end).last ?? .zero)
        #expect(try await eventually { try await there.confirmed() >= end })
        await stream.closeAndWait()
    }

    @Test func `a slow reader buffers only up to the limit`() async throws {
        var there = try await Elsewhere()
        there.source.maximumBytesAhead = 64 << 10
        let stream = try await there.open()
        let text = String(repeating: "y", count: 1_000)
        try await there.run("INSERT INTO contact (id, name) SELECT g, '\(text)' FROM generate_series(1, 20000) g")
        var ids: [String] = []
        while ids.count < 20_000 {
            #expect(stream.box.bytesAhead <= 64 << 10 + 2_000)
            let entries = try await stream.next()
            ids += Self.rows(entries)
        }
        #expect(ids == (1...20_000).map(String.init))
        await stream.closeAndWait()
    }

    @Test func `a message that is too large is not loaded into memory`() async throws {
        var there = try await Elsewhere()
        there.source.maximumMessageBytes = 4 << 20
        let stream = try await there.open()
        try await there.run("INSERT INTO contact (id, name) VALUES (1, repeat('x', 1000000))")
        #expect(Self.rows(try await Self.transactions(1, stream)) == ["1"])
        try await there.run("INSERT INTO contact (id, name) VALUES (2, repeat('x', 100000000))")
        let error = await failure { while true { _ = try await stream.next() } }
        #expect(error?.kind == .decoding && error?.message.contains("4 MiB") == true)
        await stream.closeAndWait()
    }

    private static func rows(_ entries: [Entry]) -> [String] {
        entries.compactMap { entry in
            if case .insertion(_, let new) = entry.message { text(new[0]) } else { nil }
        }
    }

    @Test func `reports the cause of refusals and ends`() async throws {
        let there = try await Elsewhere()
        var nowhere = there
        nowhere.source.slot = "nobody's"
        #expect(await failure { _ = try await nowhere.open() }?.sqlState == "42704")
        nowhere.source.slot = "nobody"
        #expect(await failure { _ = try await nowhere.open() }?.sqlState == "42704")
        let stream = try await there.open()
        #expect(await failure { _ = try await there.open() }?.sqlState == "55006")
        let waiting = Task { try await stream.next() }
        waiting.cancel()
        #expect(await failure { _ = try await waiting.value }?.kind == .cancelled)
        try await there.run("INSERT INTO contact (id) VALUES (1)")
        #expect(try await Self.transactions(1, stream).isEmpty == false)
        try await there.cluster.stop(immediate: true)
        #expect(await failure { while true { _ = try await stream.next() } }?.isUnavailable == true)
        await stream.closeAndWait()
        #expect(await failure { _ = try await there.open() }?.kind == .unavailable)
    }

    @Test func `a closed stream leaves no descriptor or thread`() async throws {
        let there = try await Elsewhere()
        let before = openDescriptors()
        for _ in 0..<3 {
            let stream = try await there.open()
            #expect(threadNames().contains("pg-replication"))
            let waiting = Task { try await stream.next() }
            try await there.close(stream)
            #expect(await failure { _ = try await waiting.value }?.kind == .connectionLost)
        }
        // other suites of the process open descriptors, too
        #expect(await eventually { openDescriptors() <= before })
        #expect(await eventually { !threadNames().contains("pg-replication") })
    }
}

extension ReplicationMessage {
    fileprivate var relation: ReplicationRelation? { if case .relation(let relation) = self { relation } else { nil } }
    fileprivate var end: LogPosition? { if case .commit(let end) = self { end } else { nil } }
}
