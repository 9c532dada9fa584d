import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import IngestFeature
@testable import SyncDispatch
@testable import SyncStore

/// A source applies every change, or stops with an error that states what to do.
@Suite struct SourceLossTests {
    private static let nulls = #""data":null,"big":null"#

    private static func contact(_ id: Int, _ name: String) -> String { #"{"id":\#(id),"name":"\#(name)",\#(nulls)}"# }

    private static func named(_ id: Int, _ name: String) -> String { #"{"id":\#(id),"name":"\#(name)"}"# }

    static func waitUntilConfirmed(_ database: FollowedDatabase) async throws {
        let end = try #require(LogPosition(try await database.value("SELECT pg_current_wal_lsn()::text") ?? ""))
        try await waitUntil("the slot is confirmed", every: .milliseconds(25)) {
            try await (database.confirmed ?? .zero) >= end
        }
    }

    static func waitUntilFree(_ database: FollowedDatabase) async throws {
        try await waitUntil("the slot is free", every: .milliseconds(25)) {
            try await database.value(
                "SELECT active::text FROM pg_replication_slots WHERE slot_name = '\(database.slot)'"
            ) == "false"
        }
    }

    // MARK: - Large documents

    /// Each update is a patch of a large document. A batch has at most 32 patches, so the transaction takes four.
    @Test func `applies an update of many rows with unchanged large values, and confirms the slot`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        try await database.run("ALTER TABLE contact ALTER big SET STORAGE EXTERNAL")
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run(
            "INSERT INTO contact (id, name, big) SELECT g, 'a', repeat('b', 100000) FROM generate_series(1, 128) g"
        )
        try await Self.waitUntilConfirmed(database)
        try await database.run("UPDATE contact SET name = 'c'")
        try await Self.waitUntilConfirmed(database)
        let rows = try await gateway.read(
            """
            SELECT count(*) FROM entities
            WHERE version = 2 AND document::text LIKE '%"name":"c"%' AND length(document::text) > 100000
            """
        )
        #expect(try rows.read(0, 0, as: Int64.self) == 128)
        #expect(try await follower.row.lastError == nil)
        await running.stop()
    }

    @Test func `batches are limited in events, bytes and patches`() throws {
        let entry = { (operation: IngestOperation, bytes: Int) in
            let document = [UInt8](repeating: 0x20, count: bytes)
            let event = IngestEvent(
                id: "e",
                entityType: "contact",
                entityID: ServerID(1),
                mark: SourceMark(version: 1),
                operation: operation,
                document: document
            )
            return IngestRequest.Entry(eventID: "e", event: .success(event))
        }
        let limits = SourceIntake.Limits(events: 3, bytes: 10_000, patches: 2)
        let batch = { SourceIntake.batch(of: $0, from: 0, 3, limits) }
        #expect(batch([IngestRequest.Entry](repeating: entry(.upsert, 10), count: 5)) == 0..<3)
        #expect(batch([IngestRequest.Entry](repeating: entry(.upsert, 5_000), count: 5)) == 0..<1)
        #expect(batch([IngestRequest.Entry](repeating: entry(.upsert, 50_000), count: 5)) == 0..<1)
        #expect(batch([IngestRequest.Entry](repeating: entry(.patch, 10), count: 5)) == 0..<2)
    }

    @Test func `reports an event that the database refuses, applies the others, and counts failures`()
        async throws
    {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF NEW.id = '13' THEN RAISE 'no'; END IF; RETURN NEW; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON entities FOR EACH ROW EXECUTE FUNCTION refuse()
                """
        )
        let running = follower.work { ($0.attempts, $0.retryPause) = (3, 0.01) }
        try await database.run("INSERT INTO contact (id, name) SELECT g, 'a' FROM generate_series(1, 20) g")
        try await follower.waitForError("the row with id '13' of table public.contact (event ")
        #expect(try await follower.row.lastError?.contains(") cannot be committed: ") == true)
        #expect(try await follower.row.failureCount > 0)
        #expect(try await follower.row.activity == .retrying)
        #expect(try await follower.entities.count == 12)
        // another run without a success does not reset the number of failures
        let failures = try await follower.row.failureCount
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        #expect(try await follower.row.failureCount >= failures)
        try await follower.waitUntil("the source fails again") { try await follower.row.failureCount > failures }
        try await connection.acceptRows(in: "refuse")
        connection.close()
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await follower.waitUntil("all rows are applied") { try await follower.entities.count == 20 }
        try await follower.waitUntil("the source runs") { try await follower.row.failureCount == 0 }
        #expect(try await follower.row.lastError == nil)
        await running.stop()
    }

    // MARK: - Positions

    /// A source that has read a row, stopped, and is reset to an earlier state, as by a restore.
    private static func restored(
        _ change: (String) -> String = { $0 }
    ) async throws -> (FollowedDatabase, Follower) {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": contact(1, "a")])
        try await waitUntilConfirmed(database)
        let before = try #require(try await follower.row.state)
        try await database.run("INSERT INTO contact (id, name) VALUES (2, 'b')")
        try await follower.waitFor(["1": contact(1, "a"), "2": contact(2, "b")])
        try await waitUntilConfirmed(database)
        await running.stop()
        try await waitUntilFree(database)
        let text = change(String(decoding: before, as: UTF8.self))
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "UPDATE sources SET state = '\(text.replacing("'", with: "''"))'")
        connection.close()
        return (database, follower)
    }

    @Test func `a slot ahead of the stored position stops the source until it is run from null`() async throws {
        let (database, follower) = try await Self.restored()
        let running = follower.work()
        try await follower.waitForError("ahead of the source's position")
        #expect(try await follower.row.lastError?.contains("sluice sources run --from-beginning") == true)
        try await database.run("INSERT INTO contact (id, name) VALUES (3, 'c')")
        _ = try await follower.gateway.store.sourceAdministration.run(follower.key, from: .anew)
        let last = Self.contact(3, "c")
        try await follower.waitFor(["1": Self.contact(1, "a"), "2": Self.contact(2, "b"), "3": last])
        await running.stop()
    }

    @Test func `a database with another system identifier stops the source`() async throws {
        let (_, follower) = try await Self.restored { text in
            text.replacing(/"system":"[0-9]+"/) { _ in #""system":"1""# }
        }
        let running = follower.work()
        try await follower.waitForError("points to a different database cluster")
        await running.stop()
    }

    @Test func `a log that ends before the stored position stops the source`() async throws {
        let (_, follower) = try await Self.restored { text in
            text.replacing(/"confirmed_lsn":"[0-9A-F\/]+"/) { _ in #""confirmed_lsn":"FFFF\/0""# }
        }
        let running = follower.work()
        try await follower.waitForError("the database was reset")
        await running.stop()
    }

    @Test func `continues from an older gateway's state, which may be behind the slot`() async throws {
        let (database, follower) = try await Self.restored { text in
            text.replacing(/,"(timeline|database)":[0-9]+/) { _ in "" }
        }
        let running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (3, 'c')")
        let last = Self.contact(3, "c")
        try await follower.waitFor(["1": Self.contact(1, "a"), "2": Self.contact(2, "b"), "3": last])
        #expect(try await follower.state?.database != nil)
        await running.stop()
    }

    @Test func `confirms the slot of a database with changes in other tables, never ahead of the state`()
        async throws
    {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        var running = follower.work()
        try await follower.waitUntil("the database is followed") { try await follower.state != nil }
        try await database.run("CREATE TABLE filler (t text); INSERT INTO filler SELECT repeat('x', 9000)")
        try await Self.waitUntilConfirmed(database)
        let stored = try #require(try await follower.state.flatMap { LogPosition($0.confirmed) })
        #expect(try await (database.confirmed ?? .zero) <= stored)
        await running.stop()
        running = follower.work()
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.contact(1, "a")])
        #expect(try await follower.row.lastError?.contains("ahead") != true)
        await running.stop()
    }

    @Test func `a slot that is lost before a change was read stops the source`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(makesSlot: false)
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings().replacing(#""tables""#, with: #""create_slot":true,"tables""#)
        )
        var running = follower.work { ($0.proof, $0.watchInterval) = (.seconds(600), .seconds(600)) }
        try await follower.waitUntil("the slot is created") { try await follower.state != nil }
        await running.stop()
        try await Self.waitUntilFree(database)
        try await database.run("SELECT pg_drop_replication_slot('\(database.slot)')")
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        running = follower.work()
        try await follower.waitForError("no longer exists")
        #expect(try await database.confirmed == nil)
        await running.stop()
    }

    // MARK: - Ids that pass from row to row

    private static let deferrable = """
        CREATE TABLE contact (id int8, name text, UNIQUE (id) DEFERRABLE);
        ALTER TABLE contact REPLICA IDENTITY FULL;
        CREATE PUBLICATION sluice FOR TABLE contact;
        """

    @Test(arguments: [["a", "b", "c"], ["x", "x", "x"]])
    func `ids that grow by one in one statement keep every row`(names: [String]) async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(Self.deferrable)
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let values = names.enumerated().map { "(\($0.offset + 1), '\($0.element)')" }.joined(separator: ",")
        try await database.run("INSERT INTO contact VALUES \(values)")
        try await follower.waitFor(
            Dictionary(uniqueKeysWithValues: names.enumerated().map { ("\($0.0 + 1)", Self.named($0.0 + 1, $0.1)) })
        )
        try await database.run("UPDATE contact SET id = id + 1")
        var expected = ["1": "gone"]
        for (index, name) in names.enumerated() { expected["\(index + 2)"] = Self.named(index + 2, name) }
        try await follower.waitFor(expected)
        try await database.run("UPDATE contact SET id = id - 1")
        expected = ["4": "gone"]
        for (index, name) in names.enumerated() { expected["\(index + 1)"] = Self.named(index + 1, name) }
        try await follower.waitFor(expected)
        await running.stop()
    }

    @Test func `two rows that swap their ids keep their contents, also against their versions`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8, name text, rev int, UNIQUE (id) DEFERRABLE);
            ALTER TABLE contact REPLICA IDENTITY FULL;
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let table = #"{"table":"public.contact","entity_type":"contact","id":"id","version":"rev","#
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings(table + #""columns":{"name":"name"}}"#)
        )
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a', 5), (2, 'b', 9)")
        try await follower.waitFor(["1": #"{"name":"a"}"#, "2": #"{"name":"b"}"#])
        try await database.run("UPDATE contact SET id = 3 - id")
        try await follower.waitFor(["1": #"{"name":"b"}"#, "2": #"{"name":"a"}"#])
        // later versions are compared with those of the exchanged rows
        try await database.run("UPDATE contact SET name = 'A', rev = 6 WHERE id = 2")
        try await follower.waitFor(["1": #"{"name":"b"}"#, "2": #"{"name":"A"}"#])
        await running.stop()
    }

    @Test func `a transaction of several batches that moves all ids keeps every row`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(Self.deferrable)
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact SELECT g, 'x' FROM generate_series(1, 1300) g")
        try await follower.waitUntil("all entities exist", every: .milliseconds(100)) {
            try await gateway.count("entities", of: follower.key.organization) == 1_300
        }
        try await database.run("UPDATE contact SET id = id + 1; DELETE FROM contact WHERE id = 700")
        try await Self.waitUntilConfirmed(database)
        let rows = try await gateway.read("SELECT id FROM entities WHERE is_deleted ORDER BY id")
        #expect(try rows.read { try $0.read("id", as: String.self) } == ["1", "700"])
        #expect(try await gateway.count("entities", of: follower.key.organization) == 1_301)
        await running.stop()
    }

    @Test func `a deferrable constraint requires whole old rows`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (part int8, id int8, name text, PRIMARY KEY (part, id), UNIQUE (id) DEFERRABLE);
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitForError("is deferrable")
        #expect(try await follower.row.lastError?.contains("REPLICA IDENTITY FULL") == true)
        await running.stop()
    }

    @Test func `a row inserted again with a lower version exists again`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            "CREATE TABLE contact (id int8 PRIMARY KEY, rev int); CREATE PUBLICATION sluice FOR TABLE contact;"
        )
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id","version":"rev"}"#
            )
        )
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 7)")
        try await follower.waitFor(["1": #"{"id":1,"rev":7}"#])
        try await database.run("DELETE FROM contact")
        try await follower.waitFor(["1": "gone"])
        try await database.run("INSERT INTO contact VALUES (1, 1)")
        try await follower.waitFor(["1": #"{"id":1,"rev":1}"#])
        try await database.run("UPDATE contact SET rev = 2")
        try await follower.waitFor(["1": #"{"id":1,"rev":2}"#])
        await running.stop()
    }

    // MARK: - Ids of several columns

    @Test func `a column that is only part of the primary key is refused, and several columns make an id`() async throws
    {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (shop text, id int8, name text, PRIMARY KEY (shop, id));
            CREATE UNIQUE INDEX ON contact (id) WHERE name = 'x';
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitForError("may have the same id")
        try await follower.put(
            database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":["shop","id"],"columns":{"name":"name"}}"#
            )
        )
        try await database.run("INSERT INTO contact VALUES ('a', 5, 'one'), ('b', 5, 'two'), ('b:~', 5, 'three')")
        let (one, two, three) = (#"{"name":"one"}"#, #"{"name":"two"}"#, #"{"name":"three"}"#)
        try await follower.waitFor(["a:5": one, "b:5": two, "b~1~0:5": three])
        try await database.run("DELETE FROM contact WHERE shop = 'a'; UPDATE contact SET id = 6 WHERE shop = 'b'")
        try await follower.waitFor(["a:5": "gone", "b:5": "gone", "b:6": two, "b~1~0:5": three])
        await running.stop()
    }

    // MARK: - Publications

    @Test func `a publication without deletions stops the source at its start and while it runs`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text, data jsonb, big text);
            CREATE PUBLICATION sluice FOR TABLE contact WITH (publish = 'insert');
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitForError("does not publish update, delete")
        func publish(_ kinds: String) async throws {
            try await database.run("ALTER PUBLICATION sluice SET (publish = '\(kinds)')")
        }
        try await publish("insert, update, delete")
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.contact(1, "a")])
        try await follower.waitUntil("the warning is shown") {
            try await follower.state?.warning?.contains("does not publish truncate") == true
        }
        try await publish("insert, update, delete, truncate")
        try await follower.waitUntil("the warning is gone") { try await follower.state?.warning == nil }
        try await publish("insert, update")
        try await follower.waitForError("does not publish delete")
        await running.stop()
    }

    @Test func `a partitioned table needs a publication under its own name`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text) PARTITION BY HASH (id);
            CREATE TABLE contact_0 PARTITION OF contact FOR VALUES WITH (MODULUS 1, REMAINDER 0);
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitForError("publish_via_partition_root = true")
        try await database.run("ALTER PUBLICATION sluice SET (publish_via_partition_root = true)")
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await database.run("INSERT INTO contact VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await follower.put(
            database.settings(#"{"table":"public.contact_0","entity_type":"contact","id":"id"}"#)
        )
        try await follower.waitForError("is a partition")
        await running.stop()
    }

    private static func warning(of follower: Follower) async throws -> String? {
        let found = try #require(try await follower.gateway.store.sources.followed(limit: 1).first)
        let clock = follower.gateway.clock
        return try await SourceInspector(connector: follower.database.connector, now: { clock.now }).inspect(found)
    }

    @Test func `a table with child tables stops the source, until the settings name the children`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text);
            CREATE TABLE "Vip" (PRIMARY KEY (id)) INHERITS (contact);
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let expected = #"has child tables that the settings do not name: public."Vip"."#
        try await follower.waitForError(expected)
        await #expect {
            _ = try await Self.warning(of: follower)
        } throws: { error in
            (error as? SourceFailure)?.userMessage.contains(expected) == true
        }
        try await follower.put(
            database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id","distinct_ids":true}"#,
                #"{"table":"public.Vip","entity_type":"contact","id":"id","distinct_ids":true}"#
            )
        )
        try await database.run(#"INSERT INTO contact VALUES (1, 'a'); INSERT INTO "Vip" VALUES (2, 'b')"#)
        try await follower.waitFor(["1": Self.named(1, "a"), "2": Self.named(2, "b")])
        #expect(try await Self.warning(of: follower) == nil)
        try await database.run(#"CREATE TABLE guest (PRIMARY KEY (id)) INHERITS ("Vip")"#)
        try await follower.waitForError("do not name: public.guest.")
        try await database.run(#"ALTER TABLE guest NO INHERIT "Vip""#)
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await database.run(#"DELETE FROM contact WHERE id = 2"#)
        try await follower.waitFor(["1": Self.named(1, "a"), "2": "gone"])
        await running.stop()
    }

    @Test func `stored settings with two tables of one entity type work with a warning`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text);
            CREATE TABLE person (id int8 PRIMARY KEY, name text);
            CREATE PUBLICATION sluice FOR TABLE contact, person;
            """
        )
        let settings = { (more: String) in
            database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id"\#(more)}"#,
                #"{"table":"public.person","entity_type":"contact","id":"id"\#(more)}"#
            )
        }
        let follower = try await Follower(gateway, database, settings: settings(""))
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a'); INSERT INTO person VALUES (2, 'b')")
        try await follower.waitFor(["1": Self.named(1, "a"), "2": Self.named(2, "b")])
        let expected = "Tables public.contact and public.person have the same entity_type 'contact'"
        #expect(try await follower.state?.warning?.contains(expected) == true)
        #expect(try await Self.warning(of: follower)?.contains(expected) == true)
        try await follower.put(settings(#","distinct_ids":true"#))
        try await follower.waitUntil("the warning has ended") { try await follower.state?.warning == nil }
        await running.stop()
    }

    @Test func `a column list without a configured column stops the source at its start`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text, owner uuid);
            CREATE PUBLICATION sluice FOR TABLE contact (id, name);
            """
        )
        let follower = try await Follower(
            gateway,
            database,
            settings: database.settings(
                #"{"table":"public.contact","entity_type":"contact","id":"id","owner":"owner"}"#
            )
        )
        let running = follower.work()
        try await follower.waitForError("omits column 'owner'")
        await running.stop()
    }

    /// A change of the publication, the statement that corrects it, and a part of the error.
    private static let publicationChanges = [
        (
            "ALTER PUBLICATION sluice DROP TABLE contact", "ALTER PUBLICATION sluice ADD TABLE contact",
            "does not publish"
        ),
        (
            "DROP TABLE contact; CREATE TABLE contact (id int8 PRIMARY KEY, name text, data jsonb, big text)",
            "ALTER PUBLICATION sluice ADD TABLE contact", "was dropped and created again"
        ),
        (
            "ALTER PUBLICATION sluice SET (publish = 'insert')",
            "ALTER PUBLICATION sluice SET (publish = 'insert, update, delete, truncate')", "does not publish update"
        ),
        (
            "ALTER PUBLICATION sluice SET TABLE contact WHERE (id > 100)", "ALTER PUBLICATION sluice SET TABLE contact",
            "condition"
        ),
        (
            "ALTER PUBLICATION sluice SET TABLE contact (id, name)", "ALTER PUBLICATION sluice SET TABLE contact",
            "column list"
        ),
        (
            """
            ALTER PUBLICATION sluice DROP TABLE contact; INSERT INTO contact (id, name) VALUES (7, 'x');
            ALTER PUBLICATION sluice ADD TABLE contact
            """, "", "removed from it and added again"
        ),
        ("ALTER PUBLICATION sluice SET (publish = 'insert')", "back", "changed and changed back"),
    ]

    @Test(arguments: publicationChanges)
    func `a publication that is changed under a running source stops it until it is run from null`(
        change: String,
        correction: String,
        expected: String
    ) async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        var running = follower.work { if correction == "back" { $0.watchInterval = .seconds(600) } }
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.contact(1, "a")])
        try await follower.waitUntil("its scope is stored") { try await follower.state?.scope != nil }
        try await database.run(change)
        if correction == "back" {
            // between two checks
            try await database.run(
                "ALTER PUBLICATION sluice SET (publish = 'insert, update, delete, truncate')"
            )
            await running.stop()
            try await Self.waitUntilFree(database)
            running = follower.work()
        }
        try await follower.waitForError(expected)
        let error = try #require(try await follower.row.lastError)
        #expect(error.contains("sluice import") && error.contains("sluice sources run --from-beginning"))
        if correction != "back", !correction.isEmpty { try await database.run(correction) }
        try await database.run("INSERT INTO contact (id, name) VALUES (102, 'b')")
        // correcting the publication is not enough
        for _ in 0..<2 {
            let failures = try await follower.row.failureCount
            _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
            try await follower.waitUntil("the source is retried") { try await follower.row.failureCount > failures }
        }
        #expect(try await follower.row.lastError?.contains("was changed while this source followed it") == true)
        #expect(try await follower.entities == ["1": Self.contact(1, "a")])
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .anew)
        try await follower.waitUntil("the database is followed again") {
            try await follower.entities["102"] == Self.contact(102, "b")
        }
        try await follower.waitUntil("the source has no error") { try await follower.row.lastError == nil }
        await running.stop()
    }

    private static let moved = """
        CREATE SCHEMA kept; CREATE SCHEMA other;
        CREATE TABLE kept.contact (id int8 PRIMARY KEY, name text);
        CREATE PUBLICATION sluice FOR TABLES IN SCHEMA kept;
        """
    private static let partitioned = """
        CREATE TABLE contact (id int8 PRIMARY KEY, name text) PARTITION BY RANGE (id);
        CREATE TABLE contact_0 PARTITION OF contact FOR VALUES FROM (0) TO (10);
        CREATE TABLE contact_1 (id int8 PRIMARY KEY, name text);
        CREATE PUBLICATION sluice FOR TABLE contact WITH (publish_via_partition_root = true);
        """
    /// SQL that makes tables, the followed table, a transaction that changes and restores something, and a part of the
    /// error.
    private static let hiddenChanges = [
        (
            moved, "kept.contact",
            """
            ALTER TABLE kept.contact SET SCHEMA other; DELETE FROM other.contact; ALTER TABLE other.contact SET SCHEMA kept
            """, "removed from it and added again"
        ),
        (
            moved, "kept.contact",
            """
            ALTER TABLE kept.contact SET UNLOGGED; DELETE FROM kept.contact; ALTER TABLE kept.contact SET LOGGED
            """, "SET UNLOGGED"
        ),
        (
            partitioned, "public.contact",
            """
            ALTER TABLE contact DETACH PARTITION contact_0; DELETE FROM contact_0;
            ALTER TABLE contact ATTACH PARTITION contact_0 FOR VALUES FROM (0) TO (10)
            """, "detached and attached again"
        ),
        (
            partitioned, "public.contact",
            """
            ALTER TABLE contact_0 SET UNLOGGED; DELETE FROM contact_0; ALTER TABLE contact_0 SET LOGGED
            """, "SET UNLOGGED"
        ),
    ]

    @Test(arguments: hiddenChanges, [true, false])
    func `a table that changes and changes back between two checks stops the source`(
        change: (tables: String, name: String, script: String, expected: String),
        isRunning: Bool
    ) async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(change.tables)
        let table = #"{"table":"\#(change.name)","entity_type":"contact","id":"id"}"#
        let follower = try await Follower(gateway, database, settings: database.settings(table))
        var running = follower.work()
        try await database.run("INSERT INTO \(change.name) VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await follower.waitUntil("its scope is stored") { try await follower.state?.scope != nil }
        if !isRunning {
            await running.stop()
            try await Self.waitUntilFree(database)
        }
        try await database.run(change.script)
        if !isRunning { running = follower.work() }
        try await follower.waitForError(change.expected)
        #expect(try await follower.state?.gap?.contains(change.expected) == true)
        let found = try #require(try await gateway.store.sources.followed(limit: 1).first)
        let inspector = SourceInspector(connector: database.connector, now: { gateway.clock.now })
        await #expect(throws: SourceFailure.self) { try await inspector.inspect(found) }
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .anew)
        try await database.run("INSERT INTO \(change.name) VALUES (2, 'b')")
        try await follower.waitUntil("the database is followed again") {
            try await follower.entities["2"] == Self.named(2, "b")
        }
        await running.stop()
    }

    /// A check that waits for a table's lock could cause a deadlock, and a long ALTER TABLE would stop the source.
    @Test func `a table that another session locks does not delay the checks`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(Self.partitioned)
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await follower.waitUntil("its scope is stored") { try await follower.state?.scope != nil }
        try await database.run("BEGIN; LOCK TABLE contact IN ACCESS EXCLUSIVE MODE")
        // the slot is reported before the scope is checked, so the second new report follows a complete check
        for _ in 0..<2 {
            let checked = try await follower.state?.report?.checkedAt
            gateway.clock.advance(seconds: 1)
            try await follower.waitUntil("the slot is reported") {
                try await follower.state?.report?.checkedAt != checked
            }
        }
        try await database.run("INSERT INTO contact VALUES (2, 'b'); COMMIT")
        try await follower.waitFor(["1": Self.named(1, "a"), "2": Self.named(2, "b")])
        await running.stop()
    }

    @Test func `reports DDL that changes rows, and added or removed partitions, and does not stop`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(Self.partitioned)
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a'); INSERT INTO contact_1 VALUES (11, 'x')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await follower.waitUntil("its scope is stored") { try await follower.state?.scope != nil }
        for (change, expected) in [
            (
                "ALTER TABLE contact ALTER name TYPE text USING upper(name)",
                "public.contact was rewritten by ALTER TABLE"
            ),
            ("ALTER TABLE contact ADD COLUMN kind text DEFAULT 'k'", "public.contact has a new column with a default"),
            (
                """
                ALTER TABLE contact_1 ADD COLUMN kind text;
                ALTER TABLE contact ATTACH PARTITION contact_1 FOR VALUES FROM (10) TO (20)
                """, "public.contact_1 became a partition of table public.contact"
            ),
            ("DROP TABLE contact_1", "1 partition(s) of table public.contact were detached or dropped"),
        ] {
            try await database.run(change)
            try await follower.waitUntil("'\(expected)' is reported") {
                try await follower.state?.lastRewrite?.contains(expected) == true
            }
        }
        let last = try await follower.state?.lastRewrite
        try await database.run("VACUUM FULL contact_0")
        let checked = try await follower.state?.report?.checkedAt
        gateway.clock.advance(seconds: 1)
        try await follower.waitUntil("the scope is checked") { try await follower.state?.report?.checkedAt != checked }
        #expect(try await follower.state?.lastRewrite == last)
        #expect(try await follower.row.lastError == nil)
        await running.stop()
    }

    @Test func `a partition without a log stops the source at its start`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(Self.partitioned + "ALTER TABLE contact_0 SET UNLOGGED")
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitForError("Table public.contact_0 is unlogged")
        await running.stop()
    }

    @Test func `a generated column in the settings stops the source at its start`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text, loud text GENERATED ALWAYS AS (upper(name)) STORED);
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let table = #"{"table":"public.contact","entity_type":"contact","id":"id","columns":{"loud":"loud"}}"#
        let follower = try await Follower(gateway, database, settings: database.settings(table))
        let running = follower.work()
        try await follower.waitForError("generated columns are not published")
        await running.stop()
    }

    @Test func `counts rows inserted after a truncation whose versions are lower`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            "CREATE TABLE contact (id int8 PRIMARY KEY, rev int); CREATE PUBLICATION sluice FOR TABLE contact;"
        )
        let table = #"{"table":"public.contact","entity_type":"contact","id":"id","version":"rev"}"#
        let follower = try await Follower(gateway, database, settings: database.settings(table))
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 7), (2, 7)")
        try await follower.waitFor(["1": #"{"id":1,"rev":7}"#, "2": #"{"id":2,"rev":7}"#])
        try await database.run("TRUNCATE contact")
        try await database.run("INSERT INTO contact VALUES (1, 1), (2, 8)")
        try await follower.waitFor(["1": #"{"id":1,"rev":7}"#, "2": #"{"id":2,"rev":8}"#])
        try await follower.waitUntil("the insertion is counted") { try await follower.state?.staleInsertions == 1 }
        await running.stop()
    }

    @Test func `a publication that names partitions instead of their table stops a running source`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text) PARTITION BY HASH (id);
            CREATE TABLE contact_0 PARTITION OF contact FOR VALUES WITH (MODULUS 1, REMAINDER 0);
            CREATE PUBLICATION sluice FOR TABLE contact WITH (publish_via_partition_root = true);
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await database.run("ALTER PUBLICATION sluice SET (publish_via_partition_root = false)")
        try await follower.waitForError("does not publish changes of table public.contact")
        await running.stop()
    }

    @Test func `new tables, columns and wider column lists do not stop a source, nor does a renamed table`()
        async throws
    {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id int8 PRIMARY KEY, name text, more text);
            CREATE TABLE other (id int8 PRIMARY KEY);
            CREATE PUBLICATION sluice FOR TABLE contact (id, name);
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await database.run("INSERT INTO contact VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.named(1, "a")])
        try await database.run("ALTER PUBLICATION sluice ADD TABLE other")
        try await database.run("ALTER PUBLICATION sluice DROP TABLE other")
        try await database.run("ALTER PUBLICATION sluice SET TABLE contact (id, name, more)")
        try await database.run("ALTER TABLE contact ADD COLUMN hidden text")
        try await database.run("ALTER TABLE contact RENAME TO person")
        let checked = try await follower.state?.report?.checkedAt
        follower.gateway.clock.advance(seconds: 1)
        try await follower.waitUntil("the scope is checked") { try await follower.state?.report?.checkedAt != checked }
        try await database.run("INSERT INTO person VALUES (2, 'b', 'c', 'd')")
        let two = #"{"id":2,"name":"b","more":"c"}"#
        try await follower.waitFor(["1": Self.named(1, "a"), "2": two])
        try await follower.put(
            database.settings(#"{"table":"public.person","entity_type":"contact","id":"id"}"#)
        )
        try await database.run("INSERT INTO person VALUES (3, 'b', 'c', 'd')")
        try await follower.waitUntil("the source continues under the new name") {
            try await follower.entities.count == 3
        }
        try await follower.waitUntil("the source has no error") { try await follower.row.lastError == nil }
        await running.stop()
    }

    @Test func `a text id in another spelling keeps its entity`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(
            """
            CREATE TABLE contact (id text PRIMARY KEY, name text);
            CREATE PUBLICATION sluice FOR TABLE contact;
            """
        )
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let id = "0192f0c1-5e7d-8abc-8def-0123456789ab"
        try await database.run("INSERT INTO contact VALUES ('\(id.uppercased())', 'a')")
        try await follower.waitUntil("the entity is there") { try await follower.entities[id] != nil }
        try await database.run("UPDATE contact SET id = lower(id), name = 'b'")
        try await follower.waitFor([id: #"{"id":"\#(id)","name":"b"}"#])
        // a transaction that changes the spelling several times is applied by its final state
        try await database.run(
            "UPDATE contact SET id = upper(id); UPDATE contact SET id = lower(id); UPDATE contact SET name = 'c'"
        )
        try await follower.waitFor([id: #"{"id":"\#(id)","name":"c"}"#])
        await running.stop()
    }

    // MARK: - Disabled sources

    @Test func `a disabled source of a quiet database applies nothing, and releases the slot`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work { $0.heldInterval = .milliseconds(50) }
        try await database.run("INSERT INTO contact (id, name) VALUES (1, 'a')")
        try await follower.waitFor(["1": Self.contact(1, "a")])
        try await Self.waitUntilConfirmed(database)
        var report = MemberReport()
        let root = try JSONTree(parsing: Array(database.settings().utf8)).root
        let settings = try #require(SourceSettings(.postgres, root, at: "", &report))
        let begun = ContinuousClock.now
        _ = try await gateway.store.sourceAdministration.put(
            follower.key,
            SourceUpdate(settings: settings, isEnabled: false)
        )
        try await waitUntil("the worker ends") { running.worker.loop.places.count == 0 }
        // the worker ended earlier than its lease would have been renewed
        #expect(begun.duration(to: .now) < .seconds(SourceStore.renewSeconds))
        try await Self.waitUntilFree(database)
        try await database.run("INSERT INTO contact (id, name) VALUES (2, 'b')")
        #expect(try await follower.entities == ["1": Self.contact(1, "a")])
        await running.stop()
        #expect(try await follower.entities == ["1": Self.contact(1, "a")])
    }

    @Test func `a worker does not hold a source whose organization was suspended`() async throws {
        let gateway = try await Gateway()
        let follower = try await Follower(gateway, try await FollowedDatabase())
        let claim = try #require(try await gateway.store.sources.claim(follower.key, .postgres))
        #expect(try await gateway.store.sources.isHeld(claim))
        let update = try OrganizationUpdate(body: Array(#"{"status":"suspended"}"#.utf8))
        _ = try await gateway.store.administration.put(follower.key.organization, update)
        #expect(try await !gateway.store.sources.isHeld(claim))
    }
}
