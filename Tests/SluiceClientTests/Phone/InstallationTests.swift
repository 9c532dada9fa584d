import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// A database that was restored from a backup is a copy. The copy gets a new device id, so that both the first phone
/// and the copy can remain in use.
@Suite struct InstallationTests {
    private static func copy(_ pool: DatabasePool) throws -> String {
        let file = FileManager.default.temporaryDirectory.appending(path: "copy-\(UUID().uuidString).sqlite").path
        let copy = try DatabaseQueue(path: file)
        try pool.backup(to: copy)
        try copy.close()
        return file
    }

    private static func device(_ pool: DatabasePool) async throws -> UUID? {
        try await pool.read { try Device.known($0) }
    }

    @Test func `a copied database gets another device id before it sends anything`() async throws {
        let phone = try MockPhone()
        try await phone.insert(Contact(name: "first"))
        await phone.sync()
        try await phone.insert(Contact(name: "unsent"))
        let first = try await Self.device(phone.pool)
        let other = try MockPhone(phone.gateway, file: try Self.copy(phone.pool))
        let second = try await Self.device(other.pool)
        #expect(first != second)
        for phone in [other, phone, other] {
            let status = await phone.sync()
            #expect(status.pending == 0 && status.failed == 0 && status.lastError == nil, "\(status)")
        }
        for phone in [phone, other] { #expect(try await phone.contacts().map(\.name) == ["first", "unsent"]) }
        #expect(phone.gateway.entities(of: "contact").count == 2)
        // both keep their ids
        try phone.pool.close()
        let reopened = try MockPhone(phone.gateway, file: phone.file)
        #expect(try await Self.device(reopened.pool) == first)
        try other.pool.close()
        #expect(try await Self.device(MockPhone(phone.gateway, file: other.file).pool) == second)
    }

    @Test func `if the app sets an installation id, only a change of this id makes a copy`() async throws {
        let phone = try MockPhone { $0.installation = "phone 1" }
        let first = try await Self.device(phone.pool)
        let moved = try MockPhone(phone.gateway, file: try Self.copy(phone.pool)) { $0.installation = "phone 1" }
        #expect(try await Self.device(moved.pool) == first)
        let copied = try MockPhone(phone.gateway, file: try Self.copy(phone.pool)) { $0.installation = "phone 2" }
        #expect(try await Self.device(copied.pool) != first)
    }

    @Test func `a copy leaves a sent write that is older than the keep setting to a person`() async throws {
        let phone = try MockPhone()
        let id = try #require(try await phone.insert())
        try await phone.pool.write { db in
            let date = Date().addingTimeInterval(-30 * 86_400).rfc3339
            try db.execute(sql: "UPDATE sluice_mutations SET status = 'sent', created_at = ?", arguments: [date])
        }
        let copied = try MockPhone(phone.gateway, file: try Self.copy(phone.pool))
        #expect(await copied.sync().failed == 1)
        #expect(copied.gateway.entities(of: "contact").isEmpty)
        try await copied.client.retry(id)
        #expect(await copied.sync().failed == 0)
        #expect(copied.gateway.entities(of: "contact").count == 1)
    }

    /// A phone with an unsent write, a copy of it, and the write.
    private static func pair() async throws -> (first: MockPhone, copy: MockPhone, write: UUID) {
        let phone = try MockPhone()
        let id = try #require(try await phone.insert())
        return (phone, try MockPhone(phone.gateway, file: try copy(phone.pool)), id)
    }

    @Test func `a copy discards a write that the first phone has sent`() async throws {
        let (first, copy, id) = try await Self.pair()
        first.gateway.holdsWrites = true
        while try await first.client.state(of: id) != .accepted {
            await first.client.syncOnce(deadline: .milliseconds(100))
        }
        try await copy.client.discard(id)
        #expect(try await copy.contacts() == [])
        for phone in [copy, first] {
            await phone.sync()
            #expect(try await phone.client.state(of: id) == .discarded)
            #expect(try await phone.contacts() == [])
        }
        first.gateway.holdsWrites = false
        #expect(first.gateway.entities(of: "contact").isEmpty)
    }

    @Test func `a copy shows a write again that took effect before its discard`() async throws {
        let (first, copy, id) = try await Self.pair()
        await first.sync()
        try await copy.client.discard(id)
        #expect(try await copy.contacts() == [])
        for phone in [copy, first] {
            let status = await phone.sync()
            #expect(status.pending == 0 && status.failed == 0, "\(status)")
            let state = try await phone.client.state(of: id)
            guard case .applied = state else {
                Issue.record("\(String(describing: state))")
                continue
            }
            #expect(try await phone.contacts().map(\.name) == ["Kari"])
        }
    }

    /// The copy has sent the write with other ids.
    @Test(arguments: [0, 1]) func `a write that the gateway has with other content gets the outcome there`(
        _ failures: Int
    )
        async throws
    {
        let (first, copy, id) = try await Self.pair()
        await copy.sync()
        let isRefused = Locked(false)
        first.gateway.onRequest { request in
            guard request.kind == .push, let entries = request.body?["mutations"]?.array else { return nil }
            return isRefused.withLock { isRefused in
                if isRefused { return nil }
                isRefused = true
                let results = entries.map { entry -> JSON in
                    [
                        "id": entry["id"] ?? .null, "status": "rejected",
                        "error": ["code": "idempotency_key_reused", "status": 422],
                    ]
                }
                return .json(["results": .array(results), "accepted_sequence": 1, "id_mappings": []])
            }
        }
        // the response to the reading is lost
        first.gateway.fail(.cutConnection, on: .reading, times: failures)
        let status = await first.sync()
        #expect(status.pending == 0 && status.failed == 0 && status.lastError == nil, "\(status)")
        guard case .applied(_, 1, _)? = try await first.client.state(of: id) else {
            Issue.record("it was not read")
            return
        }
        #expect(try await first.contacts().map(\.name) == ["Kari"])
        #expect(first.gateway.entities(of: "contact").count == 1)
    }

    // MARK: - Device ids

    private static func phone(
        _ gateway: TestGateway,
        _ organization: UUID,
        user: UUID = UUID(),
        file: String? = nil
    ) async throws -> TestPhone {
        try await TestPhone(
            gateway,
            organization: organization,
            user: user,
            entities: [Folder.sync, Job.sync],
            file: file.map { URL(filePath: $0) }
        )
    }

    private static func makeFolder(_ name: String, _ phone: TestPhone) async throws -> Int64 {
        try await phone.write { db, client in
            var folder = Folder(name: name)
            try client.insert(&folder, in: db)
            return folder.id ?? 0
        }
    }

    private static func makeJob(_ text: String, in folder: Int64, _ phone: TestPhone) async throws {
        try await phone.write { db, client in
            var job = Job(text: text, folderID: folder)
            try client.insert(&job, in: db)
        }
    }

    /// Appends to the name of a folder.
    private static func edit(_ folder: Int64, _ text: String, _ phone: TestPhone) async throws {
        try await phone.write { db, client in
            var folder = try Folder.find(db, key: folder)
            folder.name += text
            _ = try client.update(folder, in: db)
        }
    }

    private static func shown(_ phone: TestPhone) async throws -> [String] {
        try await phone.pool.read { db in
            let sql = """
                SELECT name || ': ' || coalesce((SELECT group_concat(text) FROM (
                    SELECT text FROM job WHERE folderID = folder.id ORDER BY text)), '')
                FROM folder ORDER BY 1
                """
            return try String.fetchAll(db, sql: sql)
        }
    }

    /// Both phones have the same unsent rows, edit them under their own numbers, and create more. Edits of one phone must
    /// not reach rows of the other phone, in either order of sending.
    @Test(arguments: [[0, 1], [1, 0]])
    func `two phones from one backup edit only the rows that they show`(_ order: [Int]) async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        let first = try await Self.phone(gateway, organization)
        let sent = try await Self.makeFolder("sent", first)
        try await Self.makeJob("a", in: sent, first)
        await first.sync()
        let unsent = try await Self.makeFolder("unsent", first)
        try await Self.makeJob("b", in: unsent, first)
        try await Self.edit(unsent, " edited", first)
        let second = try await Self.phone(
            gateway,
            organization,
            user: first.user,
            file: try Self.copy(first.pool)
        )
        let phones = [first, second]
        for (index, phone) in phones.enumerated() {
            try await Self.makeJob("job \(index)", in: unsent, phone)
            try await Self.makeJob("more \(index)", in: sent, phone)
            // the same number on both phones
            let own = try await Self.makeFolder("own \(index)", phone)
            try await Self.makeJob("of \(index)", in: own, phone)
            try await Self.edit(own, " edited", phone)
        }
        for index in order + order {
            let status = await phones[index].sync()
            #expect(status.failed == 0 && status.conflicts == 0 && status.lastError == nil, "\(status)")
        }
        for (index, phone) in phones.enumerated() {
            let own = try await phone.pool.read { db in
                try Int64.fetchOne(db, sql: "SELECT id FROM folder WHERE name = ?", arguments: ["own \(index) edited"])
            }
            try await Self.edit(try #require(own), " twice", phone)
            try await Self.makeJob("late \(index)", in: unsent, phone)
        }
        for index in order + order {
            let status = await phones[index].sync()
            #expect(status.pending == 0 && status.failed == 0 && status.conflicts == 0, "\(status)")
        }
        let expected = [
            "own 0 edited twice: of 0", "own 1 edited twice: of 1", "sent: a,more 0,more 1",
            "unsent edited: b,job 0,job 1,late 0,late 1",
        ]
        for phone in phones { #expect(try await Self.shown(phone) == expected) }
        let third = try await Self.phone(gateway, organization, user: first.user)
        await third.sync()
        #expect(try await Self.shown(third) == expected)
    }

    // MARK: - Numbers of pages

    private static func change(_ type: String, _ id: UUID, number: Int64, _ version: Int64, _ document: JSON) -> JSON {
        var change = Told.change(type, id, version, document)
        change["local_id"] = .integer(number)
        return change
    }

    @Test func `a row keeps its key if a restored gateway has another number for it`() throws {
        let phone = try OfflinePhone([Folder.sync, Job.sync])
        let (folder, job) = (UUID(), UUID())
        try phone.pull(Self.change("folder", folder, number: 1, 1, ["name": "Home"]))
        // as after a refused cursor
        try phone.pool.write { try DeviceNumbers.noteOthers($0) }
        try phone.pull(
            // the reference arrives before the entity
            Self.change("task", job, number: 7, 1, ["text": "Sleep", "folderId": 5]),
            Self.change("folder", folder, number: 5, 2, ["name": "House"])
        )
        try phone.refreshHeld()
        #expect(try phone.all(Folder.self) == [Folder(id: 1, name: "House")])
        #expect(try phone.all(Job.self) == [Job(id: 7, text: "Sleep", folderID: 1)])
        try phone.pull(Self.change("task", job, number: 7, 2, ["text": "Wake", "folderId": 5]))
        #expect(try phone.all(Job.self) == [Job(id: 7, text: "Wake", folderID: 1)])
        // the phone names the folder by the number that the gateway has
        _ = try phone.write { db, client in try client.update(Job(id: 7, text: "Eat", folderID: nil), in: db) }
        _ = try phone.write { db, client in try client.update(Job(id: 7, text: "Eat", folderID: 1), in: db) }
        #expect(try phone.push()?.rows.map { $0.payload?["folderId"] } == [.null, 5])
    }

    @Test func `a row that was never sent gets another number if a page has its number`() throws {
        let phone = try OfflinePhone([Folder.sync, Job.sync])
        try phone.write { db, client in
            var folder = Folder(name: "Own")
            try client.insert(&folder, in: db)
            var job = Job(text: "Sleep", folderID: folder.id)
            try client.insert(&job, in: db)
        }
        try phone.pull(Self.change("folder", UUID(), number: 1, 1, ["name": "Other"]))
        #expect(try phone.all(Folder.self).map(\.name) == ["Other", "Own"])
        #expect(try phone.all(Job.self).map(\.folderID) == [2])
        #expect(try phone.push()?.rows.map { $0.localID ?? .null } == [2, 1])
    }

    @Test func `a row whose create another device has sent is named by its server id`() throws {
        let phone = try OfflinePhone([Folder.sync, Job.sync])
        let (folder, server) = (Folder(id: 1, name: "Home"), UUID())
        let (create, edit) = try phone.write { db, client in
            var made = folder
            let create = try #require(try client.insert(&made, in: db))
            made.name = "House"
            return (create, try #require(try client.update(made, in: db)))
        }
        let batch = try phone.push()
        // a page shows the entity before the response arrives
        try phone.pull(Self.change("folder", server, number: 2, 1, ["name": "Home"]))
        #expect(try phone.all(Folder.self).count == 2)
        var success = Told.success(create, of: server)
        success["replayed"] = true
        let unknown: JSON = ["error": ["code": "validation_failed"]]
        try phone.answer(batch, [success, Told.result(edit, "rejected", unknown)])
        #expect(try phone.all(Folder.self) == [Folder(id: 1, name: "House")])
        let rows = try #require(try phone.push()).rows
        #expect(rows.map(\.id) == [edit])
        #expect(rows.map { $0.serverID?.string } == [server.wire] && rows.allSatisfy { $0.localID == nil })
    }
}
