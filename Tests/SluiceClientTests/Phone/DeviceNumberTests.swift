import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// Types with device ids: each phone has its own numbers, also in relations (specification 002, docs/spec).
@Suite struct DeviceNumberTests {
    private static func phones(_ gateway: TestGateway) async throws -> (TestPhone, TestPhone) {
        let organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        return (
            try await TestPhone(gateway, organization: organization, entities: [Folder.sync, Job.sync]),
            try await TestPhone(gateway, organization: organization, entities: [Folder.sync, Job.sync])
        )
    }

    private static func make(_ text: String, in folder: String, _ phone: TestPhone) async throws {
        try await phone.write { db, client in
            var made = Folder(name: folder)
            try made.insert(db)
            try client.enqueue(.create(made), in: db)
            var job = Job(text: text, folderID: made.id)
            try job.insert(db)
            try client.enqueue(.create(job), in: db)
        }
    }

    /// The folder of each job, by text.
    private static func jobs(_ phone: TestPhone) async throws -> [String: String] {
        try await phone.pool.read { db in
            let sql = "SELECT j.text, f.name FROM job j JOIN folder f ON f.id = j.folderID"
            return Dictionary(
                uniqueKeysWithValues: try Row.fetchAll(db, sql: sql).map { ($0[0] as String, $0[1] as String) }
            )
        }
    }

    @Test func `both phones number from one and show the same jobs`() async throws {
        let gateway = try await TestGateway.start()
        let (first, second) = try await Self.phones(gateway)
        try await Self.make("Buy milk", in: "Shopping", first)
        try await Self.make("Feed the cat", in: "Home", second)
        for phone in [first, second, first, second] { #expect((await phone.sync()).lastError == nil) }
        let expected = ["Buy milk": "Shopping", "Feed the cat": "Home"]
        #expect(try await Self.jobs(first) == expected)
        #expect(try await Self.jobs(second) == expected)
        #expect(try await first.pool.read { try Job.fetchOne($0, key: 1)?.text } == "Buy milk")
        #expect(try await second.pool.read { try Job.fetchOne($0, key: 1)?.text } == "Feed the cat")
        // an edit of the other phone's job
        try await first.write { db, client in
            var job = try Job.fetchOne(db, key: 2)!
            job.text = "Feed both cats"
            try job.update(db)
            try client.enqueue(.update(job), in: db)
        }
        for phone in [first, second] { #expect((await phone.sync()).failed == 0) }
        #expect(try await Self.jobs(second) == ["Buy milk": "Shopping", "Feed both cats": "Home"])
        // the next numbers follow
        try await Self.make("Sleep", in: "Night", second)
        for phone in [second, first] { #expect((await phone.sync()).failed == 0) }
        #expect(try await Self.jobs(first)["Sleep"] == "Night")
    }

    @Test func `a pull that is interrupted between the rows of a page assigns no number twice`() async throws {
        let gateway = try await TestGateway.start()
        let (first, second) = try await Self.phones(gateway)
        try await Self.make("Buy milk", in: "Shopping", first)
        try await Self.make("Feed the cat", in: "Home", first)
        await first.sync()
        // the first job ends the transaction of the whole page, the second the synchronization
        let pull = Locked<Task<Void, Never>?>(nil)
        try await second.pool.write { db in
            db.add(
                function: DatabaseFunction("stop", argumentCount: 0) { _ in
                    pull.withLock { $0?.cancel() }
                    return nil
                }
            )
            try db.execute(
                sql: """
                    CREATE TRIGGER first BEFORE INSERT ON job WHEN NEW.text = 'Buy milk'
                    BEGIN SELECT RAISE(ROLLBACK, 'no milk'); END;
                    CREATE TRIGGER second BEFORE INSERT ON job WHEN NEW.text = 'Feed the cat' BEGIN SELECT stop(); END
                    """
            )
        }
        pull.withLock { $0 = Task { _ = await second.sync() } }
        await pull.withLock { $0 }?.value
        #expect(try await Self.jobs(second) == [:])
        try await Self.make("Sleep", in: "Night", second)
        try await second.pool.write { try $0.execute(sql: "DROP TRIGGER first; DROP TRIGGER second") }
        for phone in [second, first] { #expect((await phone.sync()).lastError == nil) }
        let expected = ["Buy milk": "Shopping", "Feed the cat": "Home", "Sleep": "Night"]
        #expect(try await Self.jobs(second) == expected)
        #expect(try await Self.jobs(first) == expected)
    }
}
