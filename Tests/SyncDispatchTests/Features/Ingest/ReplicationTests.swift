import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncDispatch
@testable import SyncStore

/// SQL changes in an organization's own database appear in the feed, once.
@Suite struct ReplicationTests {
    private static let nulls = #""data":null,"big":null"#

    @Test func `rows that SQL inserts, updates and deletes are entities`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'Kåre'), (2, 'b'), (3, 'c')")
        try await database.run(
            "UPDATE contact SET name = 'B', data = '{\"a\": [1]}' WHERE id = 2; DELETE FROM contact WHERE id = 3"
        )
        try await database.run("UPDATE contact SET id = 10 WHERE id = 1")
        try await follower.waitFor([
            "1": "gone", "10": #"{"id":10,"name":"Kåre",\#(Self.nulls)}"#,
            "2": #"{"id":2,"name":"B","data":{"a": [1]},"big":null}"#, "3": "gone",
        ])
        let end = try #require(LogPosition(try await database.value("SELECT pg_current_wal_lsn()::text") ?? ""))
        try await waitUntil("the slot is confirmed") { try await (database.confirmed ?? .zero) >= end }
        // on a slow machine the source may be between two turns
        try await follower.waitUntil("the database is followed") { try await follower.row.activity == .running }
        #expect(try await follower.row.lastError == nil)
        await running.stop()
        #expect(try await follower.row.activity == .waiting)
    }

    @Test func `keeps a large unchanged value, and replaces other members as a whole`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        try await database.run("ALTER TABLE contact ALTER big SET STORAGE EXTERNAL")
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let big = String(repeating: "b", count: 20_000)
        try await database.run(#"INSERT INTO contact VALUES (1, 'n', '{"a": 1, "b": 2}', '\#(big)')"#)
        try await database.run(#"UPDATE contact SET name = NULL, data = '{"a": 1}'"#)
        try await follower.waitUntil("phones have the change") {
            let text = try await follower.entities["1"]
            return text?.contains(#""name":null"#) == true
        }
        let text = try #require(try await follower.entities["1"])
        #expect(text.contains(big) && text.contains(#""data":{"a": 1}"#))
        // the large value is kept, too, if the row gets another id
        try await database.run("UPDATE contact SET id = 2, name = 'm'")
        try await follower.waitUntil("phones have the change") { try await follower.entities["1"] == "gone" }
        let moved = try #require(try await follower.entities["2"])
        #expect(moved == text.replacing(#""id":1"#, with: #""id":2"#).replacing(#""name":null"#, with: #""name":"m""#))
        await running.stop()
    }

    @Test func `values are the same as in SQL`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TYPE mood AS ENUM ('fine', 'so "so"');
            CREATE DOMAIN whole AS int CHECK (VALUE > 0);
            CREATE DOMAIN larger AS whole;
            CREATE TABLE contact (
                id uuid PRIMARY KEY, i2 int2, i8 int8, n numeric, f float8, b bool, t timestamptz, ts timestamp, d date,
                j json, ba bytea, a int[], ta text[], m mood, w larger, ma mood[], iv interval, c char(3)
            );
            SET timezone = 'Asia/Kolkata';
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let id = "0192f0c1-5e7d-8abc-8def-0123456789ab"
        try await database.run(
            """
            SET timezone = 'Asia/Kolkata'; SET datestyle = 'German'; SET bytea_output = 'escape';
            INSERT INTO contact VALUES (
                '\(id)', -7, 9223372036854775807, 12345678901234567890.50, 0.1, true, '2026-11-24 10:00:00.25+05:30',
                '2026-11-24 10:00', '2026-11-24', '{"x": 1.0}', '\\x00ff', '{1,NULL}', '{"a,b"}', 'so "so"', 5,
                '{fine,"so \\"so\\""}', '1 day 2 hours', 'ab'
            )
            """
        )
        try await follower.waitFor([
            id: """
            {"id":"\(id)","i2":-7,"i8":9223372036854775807,"n":12345678901234567890.50,"f":0.1,"b":true,\
            "t":"2026-11-24T04:30:00.25Z","ts":"2026-11-24T10:00:00Z","d":"2026-11-24","j":{"x": 1.0},"ba":"AP8=",\
            "a":[1,null],"ta":["a,b"],"m":"so \\"so\\"","w":5,"ma":["fine","so \\"so\\""],"iv":"P1DT2H","c":"ab "}
            """
        ])
        await running.stop()
    }

    @Test func `follows hostile names of tables, columns and publications`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            #"""
            CREATE SCHEMA "s.""1"; CREATE TABLE "s.""1"."t';DROP TABLE x;--" ("i d" int PRIMARY KEY, "a""b" text);
            CREATE PUBLICATION "it's ""one""" FOR TABLE "s.""1"."t';DROP TABLE x;--";
            """#
        )
        let follower = try await Follower(
            gateway,
            database,
            settings: """
                {"slot":"\(database.slot)","publication":"it's \\"one\\"","tables":[{"table":\
                "\\"s.\\"\\"1\\".t';DROP TABLE x;--","entity_type":"contact","id":"i d","columns":{"a\\"b":"a/b"}}]}
                """
        )
        let running = follower.work()
        try await database.run(#"INSERT INTO "s.""1"."t';DROP TABLE x;--" VALUES (1, 'v')"#)
        try await follower.waitFor(["1": #"{"a/b":"v"}"#])
        await running.stop()
    }

    @Test func `a transaction of ten thousand rows arrives complete, in bounded parts`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) SELECT g, 'n' || g FROM generate_series(1, 10000) g")
        try await follower.waitUntil("all entities exist", every: .milliseconds(100)) {
            try await gateway.count("entities", of: follower.key.organization) == 10_000
        }
        try await database.run("UPDATE contact SET name = 'x' WHERE id % 2 = 0; DELETE FROM contact WHERE id % 2 = 1")
        try await waitUntil("all entities are changed", every: .milliseconds(100)) {
            let rows = try await gateway.read("SELECT count(*) FROM entities WHERE version = 2")
            return try rows.read(0, 0, as: Int64.self) == 10_000
        }
        let end = try #require(LogPosition(try await database.value("SELECT pg_current_wal_lsn()::text") ?? ""))
        try await waitUntil("the slot is confirmed") { try await (database.confirmed ?? .zero) >= end }
        #expect(try await gateway.count("ingested_events", of: follower.key.organization) == 20_000)
        await running.stop()
    }

    @Test func `COPY's rows share a log position, and remain distinct`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run(
            "COPY contact (id, name) FROM PROGRAM 'seq 1 300 | sed ''s/$/,x/''' WITH (FORMAT csv)"
        )
        try await follower.waitUntil("all entities exist", every: .milliseconds(50)) {
            try await gateway.count("entities", of: follower.key.organization) == 300
        }
        await running.stop()
    }

    // MARK: - Interruptions

    @Test func `a worker that dies between commit and confirmation omits and repeats nothing`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let first = follower.work { $0.tick = .seconds(600) }
        try await follower.waitUntil("the source is claimed") { try await follower.row.activity == .running }
        try await database.run(
            "INSERT INTO contact (id, name) VALUES (1, 'a'), (2, 'b'); UPDATE contact SET name = 'c'"
        )
        let expected = [
            "1": #"{"id":1,"name":"c",\#(Self.nulls)}"#, "2": #"{"id":2,"name":"c",\#(Self.nulls)}"#,
        ]
        try await follower.waitFor(expected)
        let before = try await follower.phone.pull().map { $0["version"]?.int64 }
        let unconfirmed = try #require(try await database.confirmed)
        // as if it were dead: the lease has expired, and later writes have no effect
        gateway.clock.advance(seconds: SourceStore.leaseSeconds + 1)
        let claim = try #require(try await gateway.store.sources.claim(follower.key, .postgres))
        first.task.cancel()
        await first.task.value
        #expect(try await database.confirmed == unconfirmed)
        _ = try await gateway.store.sources.finish(claim, .released(nextRunAt: gateway.clock.now))
        let second = follower.work()
        try await waitUntil("the slot is confirmed") { try await (database.confirmed ?? .zero) > unconfirmed }
        #expect(try await follower.phone.pull().map { $0["version"]?.int64 } == before)
        try await database.run("DELETE FROM contact WHERE id = 1")
        try await follower.waitFor(["1": "gone", "2": expected["2"] ?? ""])
        await second.stop()
    }

    @Test func `follows a server again after a restart or crash`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(on: try await FollowedDatabase.server())
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a",\#(Self.nulls)}"#])
        for (isImmediate, name) in [(false, "b"), (true, "c")] {
            try await database.cluster.stop(immediate: isImmediate)
            try await follower.waitUntil("the failure is reported") { try await follower.row.failureCount > 0 }
            #expect(try await follower.row.lastError != nil)
            try await database.cluster.start()
            try await database.rerun("UPDATE contact SET name = '\(name)'")
            try await follower.waitUntil("phones have the change", every: .milliseconds(20)) {
                // the pause follows the test clock
                gateway.clock.advance(seconds: 5)
                return try await follower.entities == ["1": #"{"id":1,"name":"\#(name)",\#(Self.nulls)}"#]
            }
            try await follower.waitUntil("the source has recovered") { try await follower.row.failureCount == 0 }
        }
        await running.stop()
    }

    @Test func `one of two gateways follows, and the other takes over`() async throws {
        let gateway = try await Gateway()
        let other = try await Gateway(replicaOf: gateway)
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let first = follower.work()
        try await waitUntil("the first gateway has the source") { first.worker.loop.places.count == 1 }
        let second = follower.work(through: other)
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a",\#(Self.nulls)}"#])
        // an attempt to claim the source has a place until it fails
        try await waitUntil("the second gateway has no source") { second.worker.loop.places.count == 0 }
        await first.stop()
        other.clock.advance(seconds: 1)
        gateway.clock.advance(seconds: 1)
        try await waitUntil("the second gateway has the source") { second.worker.loop.places.count == 1 }
        try await database.run("UPDATE contact SET name = 'b'")
        try await follower.waitFor(["1": #"{"id":1,"name":"b",\#(Self.nulls)}"#])
        await second.stop()
    }

    @Test func `applies operators' changes immediately, and releases a disabled source`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a",\#(Self.nulls)}"#])
        try await follower.put(
            database.settings(#"{"table":"public.contact","entity_type":"contact","id":"id","columns":{"name":"n"}}"#)
        )
        // the worker notices at its next heartbeat
        try await follower.waitUntil("the new settings are in use", every: .milliseconds(50)) {
            try await database.run("UPDATE contact SET name = 'b'")
            return try await follower.entities["1"] == #"{"n":"b"}"#
        }
        await running.stop()
    }

    // MARK: - Organizations

    @Test func `two organizations follow one database, and neither sees the other's rows`() async throws {
        let gateway = try await Gateway()
        let (one, two) = (try await FollowedDatabase(), try await FollowedDatabase())
        let followers = [try await Follower(gateway, one), try await Follower(gateway, two)]
        let connector = ReplicationConnector { uri in
            FollowedDatabase.configuration(
                (uri.host == "one.example.org" ? one : two).cluster.uri(
                    database: (uri.host == "one.example.org" ? one : two).name
                )
            )
        }
        for (follower, host) in zip(followers, ["one", "two"]) {
            try await follower.put(follower.database.settings(), host: "\(host).example.org")
            _ = try await gateway.store.sourceAdministration.run(follower.key, from: .anew)
        }
        let worker = Follower.work(gateway, connector)
        try await one.run("INSERT INTO contact (id, name) VALUES (1, 'one')")
        try await two.run("INSERT INTO contact (id, name) VALUES (1, 'two')")
        try await followers[0].waitFor(["1": #"{"id":1,"name":"one",\#(Self.nulls)}"#])
        try await followers[1].waitFor(["1": #"{"id":1,"name":"two",\#(Self.nulls)}"#])
        await worker.stop()
    }

    @Test func `organizations take turns for the places`() async throws {
        let gateway = try await Gateway()
        let connector = ReplicationConnector { _ throws(SourceFailure) in throw SourceFailure("nowhere") }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        var configuration = ReplicationWorker.Configuration(now: { gateway.clock.now })
        configuration.places = 3
        configuration.maxConcurrentPerOrganization = 2
        configuration.turn = 0
        let worker = ReplicationWorker(
            store: gateway.store,
            connector: connector,
            configuration: configuration,
            logger: logger
        )
        let (large, small) = (UUID(), UUID())
        let many = (0..<5).map { SourceKey(organization: large, name: "s\($0)") }
        let chosen = worker.loop.places.take(many + [SourceKey(organization: small, name: "s")]).taken
        #expect(chosen.count == 3)
        #expect(chosen.filter { $0.organization == large }.count == 2)
        // the sources that have waited longest
        #expect(Set(chosen.filter { $0.organization == large }) == Set(many.prefix(2)))
        #expect(worker.loop.places.take(many).taken.isEmpty)
    }

    @Test func `an organization beyond its share releases places immediately`() async throws {
        let gateway = try await Gateway()
        let connector = ReplicationConnector { _ throws(SourceFailure) in throw SourceFailure("nowhere") }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        var configuration = ReplicationWorker.Configuration(now: { gateway.clock.now })
        (configuration.places, configuration.maxConcurrentPerOrganization) = (4, 4)
        // a turn that does not end
        (configuration.turn, configuration.settling) = (3_600, 0)
        let worker = ReplicationWorker(
            store: gateway.store,
            connector: connector,
            configuration: configuration,
            logger: logger
        )
        let large = UUID()
        let many = (0..<4).map { SourceKey(organization: large, name: "s\($0)") }
        #expect(worker.loop.places.take(many).taken.count == 4)
        #expect(worker.loop.places.yielding.isEmpty)
        #expect(worker.loop.places.take([SourceKey(organization: UUID(), name: "s")]).taken.isEmpty)
        #expect(worker.loop.places.yielding.count == 1, "one place for the one source that waits")
    }

    // MARK: - Echoes

    @Test func `recognizes rows of the gateway's own requests by key or content`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text, request text);
            ALTER TABLE contact REPLICA IDENTITY FULL;
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id","causing_key":"request","columns":{"name":"name"}}"#
            )
        )
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a', NULL)")
        try await follower.waitFor(["1": #"{"name":"a"}"#])
        // a phone's edit, and the request that the gateway sent for it
        let edit = follower.phone.entry("update", "contact", server: "1", payload: #"{"name":"phone's"}"#)
        #expect(try await follower.phone.push([edit]).results.first?.status == "succeeded")
        let key = UUID()
        var parameters = Parameters()
        parameters.add(follower.key.organization)
        parameters.add(key)
        parameters.add(gateway.clock.now)
        parameters.add(PostgresBytes(ContentHash(of: Array(#"{"name":"phone's"}"#.utf8))?.bytes))
        _ = try await gateway.read(
            """
            WITH noted AS (
                INSERT INTO sent_requests
                    (organization_id, idempotency_key, entity_type, server_id, sent_at, answered_at, content)
                VALUES ($1, $2, 'contact', '1', $3, $3, $4)
                RETURNING 1
            ) SELECT count(*) FROM noted
            """,
            parameters
        )
        try await database.run("UPDATE contact SET name = 'phone''s', request = '\(key.uuidString.lowercased())'")
        // another user edits afterwards, and the key stays in the row
        try await database.run("UPDATE contact SET name = 'theirs'")
        try await follower.waitFor(["1": #"{"name":"theirs"}"#])
        let rows = try await gateway.read("SELECT result::text FROM ingested_events ORDER BY event_id")
        #expect(try rows.read { try $0.read("result", as: String.self) }.sorted() == ["applied", "applied", "echo"])
        await running.stop()
    }

    // MARK: - Errors

    @Test func `reports an error with its remedy, and continues once it is fixed`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase("CREATE TABLE contact (id int8, name text)", makesSlot: false)
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        func again() async throws {
            _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        }
        try await follower.waitForError(#"CREATE PUBLICATION "sluice" FOR TABLE "public"."contact""#)
        try await database.run("CREATE PUBLICATION sluice")
        try await again()
        try await follower.waitForError(#"ALTER PUBLICATION "sluice" ADD TABLE "public"."contact""#)
        try await database.run("ALTER PUBLICATION sluice ADD TABLE contact")
        try await again()
        try await follower.waitForError("REPLICA IDENTITY FULL")
        try await database.run("ALTER TABLE contact ADD PRIMARY KEY (id)")
        try await again()
        try await follower.waitForError("pg_create_logical_replication_slot('\(database.slot)', 'pgoutput')")
        try await database.run("SELECT pg_create_logical_replication_slot('\(database.slot)', 'test_decoding')")
        try await again()
        try await follower.waitForError("not a logical slot of pgoutput")
        try await database.run("SELECT pg_drop_replication_slot('\(database.slot)')")
        try await database.run("SELECT pg_create_logical_replication_slot('\(database.slot)', 'pgoutput')")
        try await again()
        try await database.run("INSERT INTO contact VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a"}"#])
        try await follower.waitUntil("the source has recovered") { try await follower.row.lastError == nil }
        // a configured column disappears
        try await follower.put(
            database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id","columns":{"nick":"nick"}}"#
            )
        )
        try await follower.waitForError("has no column 'nick'")
        await running.stop()
    }

    // MARK: - Renamed columns

    /// - Parameter renamed: the member `renamed` of the settings, JSON.
    private static func settings(_ database: FollowedDatabase, named column: String, renamed: String = "{}") -> String {
        let columns = #""columns":{"id":"id","\#(column)":"name"},"renamed":\#(renamed)"#
        return database.settings(#"{"table":"public.contact","entity_type":"contact","id":"id",\#(columns)}"#)
    }

    /// SQL that renames a column and runs another statement in the same transaction.
    private static func rename(_ old: String, _ new: String, and sql: String) -> String {
        "ALTER TABLE contact RENAME \(old) TO \(new); \(sql)"
    }

    /// A part of the error about a column that the log does not have.
    private static func stop(at column: String) -> String {
        "has no column '\(column)', which the settings name in 'columns', at this position of the log"
    }

    private static func document(_ id: Int, _ name: String) -> String { #"{"id":\#(id),"name":"\#(name)"}"# }

    /// A source whose settings name the column `name`, after it has read the table's first row.
    private static func reading() async throws -> (FollowedDatabase, Follower, Follower.Running) {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        try await follower.put(settings(database, named: "name"))
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": document(1, "a")])
        return (database, follower, running)
    }

    @Test func `a column renamed and back stops the source until the settings have the name`()
        async throws
    {
        let (database, follower, running) = try await Self.reading()
        // the column is renamed back immediately, so the catalog lacks it only for a moment
        try await database.run(Self.rename("name", "label", and: "INSERT INTO contact (id, label) VALUES (2, 'b')"))
        try await database.run(Self.rename("label", "name", and: "INSERT INTO contact (id, name) VALUES (3, 'c')"))
        try await follower.waitForError(Self.stop(at: "name"))
        #expect(try await follower.row.lastError?.contains("'id', 'label', 'data', 'big'") == true)
        // no change is skipped, for any number of attempts
        let failures = try await follower.row.failureCount
        try await follower.waitUntil("the source is retried", every: .milliseconds(20)) {
            follower.gateway.clock.advance(seconds: 5)
            return try await follower.row.failureCount > failures
        }
        #expect(try await follower.entities == ["1": Self.document(1, "a")])
        try await follower.put(Self.settings(database, named: "name", renamed: #"{"label":"name"}"#))
        try await follower.waitFor(["1": Self.document(1, "a"), "2": Self.document(2, "b"), "3": Self.document(3, "c")])
        try await follower.waitUntil("the source has recovered") { try await follower.row.lastError == nil }
        // after that, the entry in the settings is not needed any more
        let end = try #require(LogPosition(try await database.value("SELECT pg_current_wal_lsn()::text") ?? ""))
        try await waitUntil("the slot is confirmed") { try await (database.confirmed ?? .zero) >= end }
        try await follower.put(Self.settings(database, named: "name"))
        try await database.run("UPDATE contact SET name = 'd' WHERE id = 3")
        try await follower.waitFor(["1": Self.document(1, "a"), "2": Self.document(2, "b"), "3": Self.document(3, "d")])
        await running.stop()
    }

    @Test func `reads a renamed column under each name that the log has`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        try await follower.put(Self.settings(database, named: "name"))
        var running = follower.work()
        try await follower.waitUntil("the database is followed") { try await follower.state != nil }
        await running.stop()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await database.run(Self.rename("name", "label", and: "INSERT INTO contact (id, label) VALUES (2, 'b')"))
        // the log is read although the catalog no longer has the name `name`
        running = follower.work()
        try await follower.waitFor(["1": Self.document(1, "a")])
        try await follower.waitForError(Self.stop(at: "name"))
        try await follower.put(Self.settings(database, named: "label"))
        try await follower.waitFor(["1": Self.document(1, "a"), "2": Self.document(2, "b")])
        try await follower.waitUntil("the source has recovered") { try await follower.row.lastError == nil }
        await running.stop()
        // another rename, and this time the settings change before the log is read
        try await database.run("INSERT INTO contact (id, label) VALUES (3, 'c')")
        try await database.run(Self.rename("label", "title", and: "INSERT INTO contact (id, title) VALUES (4, 'd')"))
        try await follower.put(Self.settings(database, named: "title"))
        running = follower.work()
        try await follower.waitForError(Self.stop(at: "title"))
        #expect(try await follower.entities.count == 2)
        try await follower.put(Self.settings(database, named: "title", renamed: #"{"label":"title"}"#))
        try await follower.waitFor([
            "1": Self.document(1, "a"), "2": Self.document(2, "b"), "3": Self.document(3, "c"),
            "4": Self.document(4, "d"),
        ])
        await running.stop()
    }

    @Test func `follows a permanently renamed column under its new name, also within a transaction`()
        async throws
    {
        let (database, follower, running) = try await Self.reading()
        // the script is one transaction, so it is read again from its beginning, where the column has its old name
        try await database.run(
            """
            INSERT INTO contact (id, name) VALUES (2, 'b');
            ALTER TABLE contact RENAME name TO label;
            INSERT INTO contact (id, label) VALUES (3, 'c');
            """
        )
        try await follower.waitForError(Self.stop(at: "name"))
        // earlier changes are applied
        #expect(try await follower.entities == ["1": Self.document(1, "a"), "2": Self.document(2, "b")])
        try await follower.put(Self.settings(database, named: "label"))
        try await follower.waitForError(Self.stop(at: "label"))
        try await follower.put(Self.settings(database, named: "label", renamed: #"{"name":"label"}"#))
        let expected = ["1": Self.document(1, "a"), "2": Self.document(2, "b"), "3": Self.document(3, "c")]
        try await follower.waitFor(expected)
        // a rename that the settings already contain does not stop the source
        try await follower.put(Self.settings(database, named: "label", renamed: #"{"name":"label","title":"label"}"#))
        try await database.run("ALTER TABLE contact RENAME label TO title; UPDATE contact SET title = 'd' WHERE id = 3")
        try await follower.waitFor(expected.merging(["3": Self.document(3, "d")]) { $1 })
        try await follower.waitUntil("the source has recovered") { try await follower.row.lastError == nil }
        // once the log is read to its end, a missing column is reported even if no change names it
        let end = try #require(LogPosition(try await database.value("SELECT pg_current_wal_lsn()::text") ?? ""))
        try await waitUntil("the slot is confirmed") { try await (database.confirmed ?? .zero) >= end }
        try await follower.put(Self.settings(database, named: "label"))
        try await follower.waitForError("has no column 'label', which the settings name in 'columns'. Correct")
        await running.stop()
    }

    @Test func `creates a slot on request, and reports a lost one without creating it again`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(makesSlot: false)
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings().replacing(#""tables""#, with: #""create_slot":true,"tables""#)
        )
        var running = follower.work()
        try await follower.waitUntil("the database is followed") { try await follower.state != nil }
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a",\#(Self.nulls)}"#])
        await running.stop()
        try await waitUntil("the server notices") {
            try await database.value(
                "SELECT active::text FROM pg_replication_slots WHERE slot_name = '\(database.slot)'"
            )
                == "false"
        }
        try await database.run("SELECT pg_drop_replication_slot('\(database.slot)')")
        running = follower.work()
        try await follower.waitForError("no longer exists")
        #expect(try await database.confirmed == nil)
        // the operator starts from the beginning
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .anew)
        try await follower.waitUntil("the database is followed") { try await follower.state != nil }
        try await database.run("UPDATE contact SET name = 'b'")
        try await follower.waitFor(["1": #"{"id":1,"name":"b",\#(Self.nulls)}"#])
        await running.stop()
    }

    @Test func `reports a slot that the server invalidated`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(on: try await FollowedDatabase.server())
        let follower = try await Follower(gateway, database)
        try await database.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
        try await database.run("SELECT pg_reload_conf()")
        for _ in 0..<3 {
            try await database.run(
                "INSERT INTO contact (id, name) SELECT 1, repeat('x', 1000); DELETE FROM contact"
            )
            try await database.run("SELECT pg_switch_wal()")
        }
        try await database.run("CHECKPOINT")
        let running = follower.work()
        try await follower.waitForError("was invalidated")
        await running.stop()
    }

    @Test func `reports the requirements of a server without logical decoding`() async throws {
        let gateway = try await Gateway()
        let cluster = try await TestCluster.dedicated()
        let follower = try await Follower(gateway, try await FollowedDatabase())
        let connector = ReplicationConnector { _ in FollowedDatabase.configuration(cluster.uri()) }
        let running = follower.work(connector: connector)
        try await follower.waitForError("ALTER SYSTEM SET wal_level = logical")
        await running.stop()
        await cluster.close()
    }

    @Test func `reports a role without the right`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        try await database.run("CREATE ROLE \"\(database.name)\" LOGIN")
        let uri = database.cluster.uri(database: database.name).replacing(
            "user=postgres",
            with: "user=\(database.name)"
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work(connector: ReplicationConnector { _ in FollowedDatabase.configuration(uri) })
        try await follower.waitForError("REPLICATION")
        try await database.run("ALTER ROLE \"\(database.name)\" REPLICATION")
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": #"{"id":1,"name":"a",\#(Self.nulls)}"#])
        await running.stop()
    }

    @Test func `reports a refused row and skips it, and reports a truncation`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work { $0.limits.payloadBytes = 1_000 }
        try await database.run("INSERT INTO contact (id, name) VALUES (1, repeat('x', 2000)), (2, 'b')")
        try await follower.waitFor(["2": #"{"id":2,"name":"b",\#(Self.nulls)}"#])
        try await follower.waitUntil("the refusal is reported") { try await follower.state?.refused == 1 }
        #expect(try await follower.state?.lastRefusal?.hasPrefix("public.contact") == true)
        try await database.run("TRUNCATE contact")
        try await follower.waitUntil("the truncation is reported") { try await follower.state?.lastTruncation != nil }
        #expect(try await follower.state?.lastTruncation?.hasPrefix("public.contact") == true)
        // truncations are not applied
        #expect(try await follower.entities["2"] != "gone")
        await running.stop()
    }

    @Test func `reports the lag of a slot`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        try await database.run("CREATE TABLE filler (t text)")
        try await database.run("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
        let running = follower.work()
        try await waitUntil("the lag is reported") { !running.worker.reports.isEmpty }
        #expect(running.worker.reports.allSatisfy { $0.walStatus == "reserved" })
        try await follower.waitUntil("the lag is in the source's row") { try await follower.state?.report != nil }
        try await follower.waitUntil("the source catches up") {
            try await (follower.state?.report?.lagBytes ?? .max) < 100_000
        }
        await running.stop()
    }

    // MARK: - Addresses and pauses

    @Test func `connects only to databases that the operator allows`() async throws {
        let uri = try DatabaseURI("postgresql://u:p@db.example.org/d?sslmode=require")
        func connector(_ addresses: String...) -> ReplicationConnector {
            ReplicationConnector(policy: AddressPolicy(), authorities: "/cas") { _ in
                addresses.compactMap { IPAddress($0) }
            }
        }
        let good = try await connector("10.0.0.1", "93.184.216.34").configuration(uri)
        #expect(good.uri.contains("hostaddr='93.184.216.34'"))
        for addresses in [[], ["127.0.0.1"], ["10.0.0.1", "169.254.169.254"], ["::1"]] {
            let connector = ReplicationConnector(policy: AddressPolicy(), authorities: "/cas") { _ in
                addresses.compactMap { IPAddress($0) }
            }
            await #expect(throws: SourceFailure.self) { try await connector.configuration(uri) }
        }
    }

    @Test func `pauses grow, and are longer if an operator has to act`() {
        #expect(
            (0...8).map { ReplicationWorker.pause(failures: $0, isFatal: false) } == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        )
        #expect(ReplicationWorker.pause(failures: 100, isFatal: true) == 300)
    }
}
