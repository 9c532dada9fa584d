import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Expired tokens, restored phones, and gateways restored to an older state: no write is lost or repeated.
@Suite struct TransientErrorTests {
    /// Returns the given tokens in order.
    private actor TokenQueue {
        private var tokens: [String]
        private(set) var asked = 0

        init(_ tokens: [String]) { self.tokens = tokens }

        func next() -> String {
            asked += 1
            return tokens.count > 1 ? tokens.removeFirst() : tokens[0]
        }

        func put(_ token: String) { tokens = [token] }
    }

    private static func client(_ phone: TestPhone, _ gateway: TestGateway, _ purse: TokenQueue) throws -> SluiceClient {
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        return try SluiceClient(
            database: phone.pool,
            gateway: gateway.url,
            entities: [Contact.sync, Visit.sync],
            configuration: configuration
        ) { await purse.next() }
    }

    @Test func `a rejected token is refreshed once and loses no write`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let good = try await gateway.token(organization: phone.organization, user: phone.user)
        let refreshed = TokenQueue(["bad", good])
        let client = try Self.client(phone, gateway, refreshed)
        let kari = Contact(name: "Kari")
        let write = try await phone.pool.write { db in
            try kari.insert(db)
            return try client.enqueue(.create(kari), in: db)
        }
        let id = try #require(write)
        #expect((await client.syncOnce()).lastError == nil)
        #expect(await refreshed.asked == 2)
        #expect(try await client.state(of: id)?.isSettled == true)

        // without a valid token everything waits, and continues as soon as there is one
        let empty = TokenQueue(["bad"])
        let blocked = try Self.client(phone, gateway, empty)
        var renamed = kari
        renamed.name = "Kari N."
        let written = try await phone.pool.write { [renamed] db in
            try renamed.update(db)
            return try blocked.enqueue(.update(renamed), in: db)
        }
        let edit = try #require(written)
        let status = await blocked.syncOnce(deadline: .seconds(600))
        guard case .token = status.blockedBy else {
            Issue.record("\(status)")
            return
        }
        #expect(status.pending == 1 && status.phase == .blocked)
        await empty.put(good)
        #expect((await blocked.syncOnce()).blockedBy == nil)
        #expect(try await blocked.state(of: edit)?.isSettled == true)
    }

    @Test func `a status is not complete if the exchange did not take place`() async throws {
        let phone = try MockPhone()
        try await phone.insert()
        #expect(!phone.client.currentStatus.isComplete)
        #expect(await phone.sync().isComplete)
        let failures: [@Sendable (MockGateway) -> Void] = [
            { $0.fail(.status(401)) }, { $0.fail(.status(403)) }, { $0.fail(.cutConnection) },
            { $0.fail(.status(503)) },
        ]
        for fail in failures {
            fail(phone.gateway)
            let status = await phone.client.syncOnce(deadline: .milliseconds(500))
            #expect(status.pending == 0 && !status.isComplete, "\(status)")
            phone.gateway.recover()
            #expect(await phone.sync().isComplete)
        }
        let other = try MockPhone(phone.gateway, user: "ola", file: phone.file)
        let status = await other.sync()
        #expect(status.blockedBy == .otherAccount && status.phase == .blocked && !status.isComplete, "\(status)")
        phone.gateway.fail(.delay(.seconds(3_600)))
        #expect(
            !(await phone.client.syncOnce(deadline: .milliseconds(100))).isComplete,
            "the deadline ended the attempt"
        )
    }

    @Test func `another user's token cannot access the writes of this user`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        try await phone.create(Contact(name: "Kari"))
        await phone.sync()
        try await phone.create(Contact(name: "Ola"))
        let other = try await gateway.token(organization: phone.organization, user: UUID())
        let client = try Self.client(phone, gateway, TokenQueue([other]))
        let status = await client.syncOnce(deadline: .seconds(600))
        #expect(status.blockedBy == .otherAccount && status.pending == 1)
        await #expect(throws: SluiceError.pendingWrites(1)) { try await client.signOut() }
        #expect(String(decoding: try await client.export(), as: UTF8.self).contains(#""name":"Ola""#))
        try await client.signOut(pending: .discard)
        #expect(try await phone.contacts() == [])
        // the client of the signed-out user no longer writes
        #expect((await client.syncOnce()).blockedBy == .signedOut)
        #expect(try await phone.contacts() == [])
        let next = try Self.client(phone, gateway, TokenQueue([other]))
        #expect((await next.syncOnce()).blockedBy == nil)
        // entities visible to the whole organization are pulled for the new user
        #expect(try await phone.contacts().map(\.name) == ["Kari"])
    }

    @Test func `a phone restored from a backup assigns new sequence numbers`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        try await phone.create(Contact(name: "first"))
        await phone.sync()
        let backup = phone.file.deletingLastPathComponent().appending(path: "backup.sqlite")
        try phone.pool.backup(to: DatabaseQueue(path: backup.path))
        // writes after the backup
        for index in 0..<3 { try await phone.create(Contact(name: "lost \(index)")) }
        await phone.sync()
        let restored = try await TestPhone(gateway, organization: phone.organization, user: phone.user, file: backup)
        let own = try #require(try await restored.create(Contact(name: "after")))
        let status = await restored.sync()
        #expect(status.failed == 0 && status.pending == 0 && status.lastError == nil)
        guard case .applied = try await restored.client.outcome(of: own) else {
            Issue.record("the write is gone")
            return
        }
        let names = ["after", "first", "lost 0", "lost 1", "lost 2"]
        #expect(try await restored.contacts().map(\.name) == names)
    }

    @Test func `two phones from one backup send all their writes`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        try await phone.create(Contact(name: "first"))
        await phone.sync()
        let backup = phone.file.deletingLastPathComponent().appending(path: "backup.sqlite")
        try phone.pool.backup(to: DatabaseQueue(path: backup.path))
        let other = try await TestPhone(gateway, organization: phone.organization, user: phone.user, file: backup)
        await other.sync()
        // both phones run, so that no launch detects the copy
        for round in 0..<3 {
            try await phone.create(Contact(name: "here \(round)"))
            let kari = Contact(name: "there \(round)")
            try await other.create(kari)
            try await other.create(Visit(contactID: kari.id, title: "\(round)"))
            for phone in [phone, other] {
                let status = await phone.sync()
                #expect(status.failed == 0 && status.pending == 0 && status.lastError == nil, "\(status)")
            }
        }
        await phone.sync()
        #expect(try await phone.contacts().count == 7)
        #expect(try await phone.visits().count == 3)
        #expect(try await phone.contacts().map(\.name) == other.contacts().map(\.name))
    }

    @Test func `a restored phone with device ids assigns no id twice`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        let entities = [Folder.sync, Job.sync]
        let phone = try await TestPhone(gateway, organization: organization, entities: entities)
        func make(_ name: String, _ phone: TestPhone) async throws {
            try await phone.write { db, client in
                var folder = Folder(name: name)
                try folder.insert(db)
                try client.enqueue(.create(folder), in: db)
                var job = Job(text: name, folderID: folder.id)
                try job.insert(db)
                try client.enqueue(.create(job), in: db)
            }
        }
        try await make("first", phone)
        await phone.sync()
        let backup = phone.file.deletingLastPathComponent().appending(path: "backup.sqlite")
        try phone.pool.backup(to: DatabaseQueue(path: backup.path))
        try await make("lost", phone)
        await phone.sync()
        let restored = try await TestPhone(
            gateway,
            organization: organization,
            user: phone.user,
            entities: entities,
            file: backup
        )
        try await make("after", restored)
        let status = await restored.sync()
        #expect(status.failed == 0 && status.pending == 0 && status.lastError == nil, "\(status)")
        let found = try await restored.pool.read { db in
            try Row.fetchAll(db, sql: "SELECT j.text, f.name FROM job j JOIN folder f ON f.id = j.folderID ORDER BY 1")
                .map { [$0[0] as String, $0[1] as String] }
        }
        #expect(found == [["after", "after"], ["first", "first"], ["lost", "lost"]])
    }

    @Test func `two phones from one backup never give two rows the same number`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        let entities = [Folder.sync, Job.sync]
        let phone = try await TestPhone(gateway, organization: organization, entities: entities)
        func make(_ name: String, _ phone: TestPhone) async throws {
            try await phone.write { db, client in
                var folder = Folder(name: name)
                try client.insert(&folder, in: db)
                var job = Job(text: name, folderID: folder.id)
                try client.insert(&job, in: db)
            }
        }
        try await make("first", phone)
        await phone.sync()
        let backup = phone.file.deletingLastPathComponent().appending(path: "backup.sqlite")
        try phone.pool.backup(to: DatabaseQueue(path: backup.path))
        let other = try await TestPhone(
            gateway,
            organization: organization,
            user: phone.user,
            entities: entities,
            file: backup
        )
        await other.sync()
        for round in 0..<3 {
            try await make("here \(round)", phone)
            try await make("there \(round)", other)
            for phone in [phone, other] {
                let status = await phone.sync()
                #expect(status.failed == 0 && status.pending == 0 && status.lastError == nil, "\(status)")
            }
        }
        await phone.sync()
        let names = ["first"] + (0..<3).map { "here \($0)" } + (0..<3).map { "there \($0)" }
        for phone in [phone, other] {
            let found = try await phone.pool.read { db in
                let sql = "SELECT j.text, f.name FROM job j JOIN folder f ON f.id = j.folderID ORDER BY 1"
                return try Row.fetchAll(db, sql: sql).map { [$0[0] as String, $0[1] as String] }
            }
            #expect(found == names.map { [$0, $0] })
        }
    }

    @Test func `rewritten keys become server ids everywhere in one transaction`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let contacts = EntitySync(
            "contact",
            table: "contact",
            key: .uuid("id"),
            columns: Contact.sync.columns,
            keys: .rewritten
        )
        let phone = try await TestPhone(gateway, organization: organization, entities: [contacts, Visit.sync])
        let kari = Contact(name: "Kari")
        try await phone.create(kari)
        var visit = Visit(contactID: kari.id, title: "First")
        visit.details = #"{"guests":["\#(kari.id.uuidString.lowercased())"]}"#
        try await phone.create(visit)
        let observed = Observed(phone.pool)
        #expect((await phone.sync()).lastError == nil)
        let contact = try #require(try await phone.contacts().first)
        let shown = try #require(try await phone.visits().first)
        #expect(contact.id != kari.id)
        #expect(shown.contactID == contact.id && shown.id == visit.id)
        #expect(shown.details == #"{"guests":["\#(contact.id.uuidString.lowercased())"]}"#)
        #expect(observed.torn == [])
        // edits by the new key
        var renamed = contact
        renamed.name = "Kari N."
        #expect(try await phone.update(renamed) != nil)
        #expect((await phone.sync()).failed == 0)
        let other = try await TestPhone(gateway, organization: organization)
        await other.sync()
        #expect(try await other.contacts().map(\.name) == ["Kari N."])
        #expect(try await other.visits().map(\.contactID) == other.contacts().map(\.id))
    }

    /// Checks every committed state. A state with a visit without its contact would be incomplete.
    private final class Observed: TransactionObserver, @unchecked Sendable {
        // used on the writer's queue only
        private(set) var torn: [String] = []

        init(_ pool: DatabasePool) { pool.add(transactionObserver: self, extent: .databaseLifetime) }

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidRollback(_ db: Database) {}

        func databaseDidCommit(_ db: Database) {
            let sql = "SELECT title FROM visit WHERE contactID NOT IN (SELECT id FROM contact)"
            torn += (try? String.fetchAll(db, sql: sql)) ?? []
        }
    }

    @Test func `a phone sends a restored gateway the mutations that the gateway lost`() async throws {
        let gateway = try await TestGateway.start()
        let phone = try await TestPhone(gateway, organization: try await gateway.makeOrganization())
        let write = try #require(try await phone.create(Contact(name: "Kari")))
        await phone.sync()
        // as if this phone had pushed more mutations than the gateway has
        try await phone.pool.write { db in
            try db.execute(
                sql: """
                    UPDATE sluice_mutations
                    SET sequence_number = 5, id = ?, idempotency_key = ?, status = 'succeeded';
                    UPDATE sluice_device SET accepted_sequence = 5, next_sequence = 6;
                    """,
                arguments: [UUID().uuidString.lowercased(), UUID().uuidString.lowercased()]
            )
        }
        _ = write
        try await phone.create(Contact(name: "Ola"))
        let status = await phone.sync()
        #expect(status.pending == 0 && status.lastError == nil, "\(status)")
        let accepted = try await phone.pool.read {
            try Int.fetchOne($0, sql: "SELECT accepted_sequence FROM sluice_device")
        }
        #expect(accepted == 6)
    }

    @Test func `two clients on one file do not synchronize at the same time`() async throws {
        let phone = try MockPhone()
        try await phone.pool.write { db in
            // the other client's process is alive
            try db.execute(
                sql: "INSERT INTO sluice_flight VALUES (1, ?, ?)",
                arguments: ["\(ProcessIdentity.own.text)/other", Date().timeIntervalSince1970 + 60]
            )
        }
        try await phone.insert()
        #expect((await phone.client.syncOnce(deadline: .seconds(1))).pending == 1)
        // the other client's process has ended
        try await phone.pool.write { try $0.execute(sql: "UPDATE sluice_flight SET holder = '999999999/other'") }
        #expect((await phone.sync()).pending == 0)
    }

    /// In a container the app has the same process id each time, and free ids are reused.
    @Test func `does not wait for a crashed client even if its process id is reused`() async throws {
        let other = try Process.run(URL(filePath: "/bin/sleep"), arguments: ["60"])
        defer { other.terminate() }
        let own = ProcessInfo.processInfo.processIdentifier
        for gone in ["\(own)", "\(own).1.before", "\(other.processIdentifier).1.before"] {
            #expect(ProcessIdentity(text: gone)?.isGone == true, "\(gone)")
        }
        for living in [ProcessIdentity.own.text, "\(other.processIdentifier)..other"] {
            #expect(ProcessIdentity(text: living)?.isGone == false, "\(living)")
        }
        #expect(ProcessIdentity(text: "other") == nil)
        let phone = try MockPhone()
        try await phone.pool.write { db in
            try db.execute(
                sql: "INSERT INTO sluice_flight VALUES (1, ?, ?)",
                arguments: ["\(own).1.before/other", Date().timeIntervalSince1970 + 60]
            )
        }
        try await phone.insert()
        #expect((await phone.sync()).pending == 0)
    }
}
