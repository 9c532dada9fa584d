import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncDispatch
@testable import SyncStore

/// A source whose slot or database is changed applies every change, or stops with an error that states what to do.
@Suite struct SlotChangeTests {
    private static func contact(_ id: Int) -> String { #"{"id":\#(id),"name":"a","data":null,"big":null}"# }

    private static func contacts(_ ids: Int...) -> [String: String] {
        Dictionary(uniqueKeysWithValues: ids.map { ("\($0)", contact($0)) })
    }

    private static func insert(_ id: Int, into database: FollowedDatabase) async throws {
        try await database.run("INSERT INTO contact (id, name) VALUES (\(id), 'a')")
    }

    private static func makeSlot(_ name: String, in database: FollowedDatabase) async throws {
        try await database.run("SELECT pg_create_logical_replication_slot('\(name)', 'pgoutput')")
    }

    private static func settings(_ database: FollowedDatabase, slot: String, createsSlot: Bool = false) -> String {
        database.settings().replacing(
            #""slot":"\#(database.slot)""#,
            with: #""slot":"\#(slot)","create_slot":\#(createsSlot)"#
        )
    }

    /// A stopped source that has read row 1. Row 2 was inserted afterwards.
    ///
    /// - Parameter state: SQL that changes the stored state, a `jsonb`.
    private static func stopped(_ state: String = "state::jsonb") async throws -> (FollowedDatabase, Follower) {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await insert(1, into: database)
        try await follower.waitFor(contacts(1))
        try await SourceLossTests.waitUntilConfirmed(database)
        await running.stop()
        try await SourceLossTests.waitUntilFree(database)
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "UPDATE sources SET state = (\(state))::json")
        connection.close()
        try await insert(2, into: database)
        return (database, follower)
    }

    /// The state of an older gateway.
    private static let older = "state::jsonb - 'timeline' - 'database'"

    private static func runFromNull(_ follower: Follower, until slot: String) async throws {
        _ = try await follower.gateway.store.sourceAdministration.run(follower.key, from: .anew)
        try await follower.waitUntil("slot '\(slot)' is read") { try await follower.state?.slot == slot }
    }

    @Test(arguments: ["state::jsonb", older])
    func `a newer slot stops the source, which loses nothing if its old slot is set again`(state: String) async throws {
        let (database, follower) = try await Self.stopped(state)
        let newer = "\(database.slot)_b"
        try await Self.makeSlot(newer, in: database)
        try await Self.insert(3, into: database)
        try await follower.put(Self.settings(database, slot: newer))
        let running = follower.work()
        try await follower.waitForError("ahead of the source's position")
        let error = try #require(try await follower.row.lastError)
        #expect(error.contains("Put '\(database.slot)' into the settings"))
        #expect(error.contains("sluice sources run --from-beginning"))
        #expect(try await follower.entities == Self.contacts(1))
        try await follower.put(database.settings())
        try await follower.waitFor(Self.contacts(1, 2, 3))
        try await follower.waitUntil("the source has recovered") { try await follower.row.lastError == nil }
        await running.stop()
    }

    @Test func `a slot to be created stops a source that has a position, until it is run from null`() async throws {
        let (database, follower) = try await Self.stopped()
        let newer = "\(database.slot)_b"
        try await follower.put(Self.settings(database, slot: newer, createsSlot: true))
        let running = follower.work()
        try await follower.waitForError("There is no slot '\(newer)'")
        #expect(try await follower.row.lastError?.contains("then run the source with \"from\": null") == true)
        #expect(
            try await database.value("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = '\(newer)'")
                == "0"
        )
        #expect(try await follower.entities == Self.contacts(1))
        try await Self.runFromNull(follower, until: newer)
        try await Self.insert(3, into: database)
        try await follower.waitFor(Self.contacts(1, 3))
        await running.stop()
    }

    /// The state of an older gateway has no database, but the publication's oid, which also differs.
    @Test(arguments: [
        ("state::jsonb", "points to a different database of the cluster"),
        (older, "it was dropped and created again"),
    ])
    func `another database of the same server stops the source until it is run from null`(
        state: String,
        expected: String
    ) async throws {
        let (database, follower) = try await Self.stopped(state)
        let other = try await FollowedDatabase()
        try await follower.put(Self.settings(database, slot: other.slot))
        let running = follower.work(connector: other.connector)
        try await follower.waitForError(expected)
        #expect(try await follower.row.lastError?.contains("sluice sources run --from-beginning") == true)
        #expect(try await follower.entities == Self.contacts(1))
        try await Self.runFromNull(follower, until: other.slot)
        try await Self.insert(3, into: other)
        try await follower.waitFor(Self.contacts(1, 3))
        await running.stop()
    }

    @Test func `a corrected URI continues a source that was led to another database`() async throws {
        let (database, follower) = try await Self.stopped()
        let other = try await FollowedDatabase()
        var running = follower.work(connector: other.connector)
        try await follower.waitForError("points to a different database of the cluster")
        #expect(try await follower.state?.gap == nil)
        await running.stop()
        try await follower.put(database.settings())
        running = follower.work()
        try await follower.waitFor(Self.contacts(1, 2))
        await running.stop()
    }

    @Test func `a slot that is not ahead of the position replaces the old one without a gap`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase()
        let second = "\(database.slot)_b"
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        try await follower.waitUntil("the database is followed") { try await follower.state != nil }
        try await Self.makeSlot(second, in: database)
        try await Self.insert(1, into: database)
        try await follower.waitFor(Self.contacts(1))
        try await SourceLossTests.waitUntilConfirmed(database)
        let base = try await follower.state?.base
        try await follower.put(Self.settings(database, slot: second))
        try await Self.insert(2, into: database)
        try await follower.waitFor(Self.contacts(1, 2))
        try await follower.waitUntil("the second slot is read") { try await follower.state?.slot == second }
        #expect(try await follower.state?.base == base)
        // row 1 is in both slots, and was applied once
        let rows = try await gateway.read("SELECT count(*) FROM entities WHERE version = 1")
        #expect(try rows.read(0, 0, as: Int64.self) == 2)
        #expect(try await follower.row.lastError == nil)
        await running.stop()
    }

    @Test func `another slot does not remove the gap of a publication`() async throws {
        let (database, follower) = try await Self.stopped(#"state::jsonb || '{"gap":"it was changed"}'"#)
        let newer = "\(database.slot)_b"
        try await Self.makeSlot(newer, in: database)
        try await follower.put(Self.settings(database, slot: newer))
        let running = follower.work()
        try await follower.waitForError("was changed while this source followed it")
        try await Self.runFromNull(follower, until: newer)
        #expect(try await follower.state?.gap == nil)
        await running.stop()
    }

    // MARK: - Prepared transactions

    @Test func `refuses a slot with two_phase, and follows the database once the slot is replaced`() async throws {
        let gateway = try await Gateway()
        let database = try await FollowedDatabase(makesSlot: false)
        try await database.run("SELECT pg_create_logical_replication_slot('\(database.slot)', 'pgoutput', false, true)")
        let follower = try await Follower(gateway, database)
        let running = follower.work()
        let expected = "was created with two_phase"
        try await follower.waitForError(expected)
        #expect(
            try await follower.row.lastError?.contains("SELECT pg_drop_replication_slot('\(database.slot)')") == true
        )
        let found = try #require(try await gateway.store.sources.followed(limit: 1).first)
        let inspector = SourceInspector(connector: database.connector, now: { gateway.clock.now })
        await #expect {
            try await inspector.inspect(found)
        } throws: { error in
            (error as? SourceFailure)?.userMessage.contains(expected) == true
        }
        try await database.run("SELECT pg_drop_replication_slot('\(database.slot)')")
        try await Self.makeSlot(database.slot, in: database)
        _ = try await gateway.store.sourceAdministration.run(follower.key, from: .continuing)
        try await Self.insert(1, into: database)
        try await follower.waitFor(Self.contacts(1))
        await running.stop()
    }

    @Test func `the error about an unknown message of the server names the remedy`() {
        let error = PostgresError(.decoding, "the server sent a message of kind 98")
        let failure = ReplicationAdvice(settings: ReplicationSettings()).failure(error)
        #expect(failure.isFatal)
        #expect(failure.userMessage.contains("a message of kind 98. Connect to PostgreSQL directly"))
        #expect(failure.userMessage.contains("without two_phase"))
    }
}
