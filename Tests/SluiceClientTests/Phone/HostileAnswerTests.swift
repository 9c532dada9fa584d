import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// Responses that no gateway sends. They crash no process and lose no data, and the request is repeated after a pause.
@Suite struct HostileAnswerTests {
    @Test(arguments: ["inf", "1e300", "1e19", "86401", "Sun, 06 Nov 2994 08:49:37 GMT"])
    func `limits Retry-After to a day`(header: String) {
        let reply = Reply.of(status: 503, body: [], retryAfter: header)
        guard case .again(let trouble) = reply else {
            Issue.record("\(reply)")
            return
        }
        #expect(trouble.retryAfter == 86_400)
    }

    @Test(arguments: ["nan", "-1", "soon"])
    func `ignores an invalid Retry-After`(header: String) {
        guard case .again(let trouble) = Reply.of(status: 503, body: [], retryAfter: header) else {
            Issue.record("the failure was taken for an answer")
            return
        }
        #expect(trouble.retryAfter == nil)
    }

    @Test(arguments: [JSON.integer(.max), .integer(-1), .null, "1"])
    func `ignores an impossible watermark`(accepted: JSON) throws {
        let lab = try Lab()
        let contact = try #require(try lab.create(Contact(name: "Kari")))
        let batch = try #require(try lab.batch())
        let result: JSON = ["id": .string(contact.wire), "status": "succeeded", "version": 1, "server_id": "a"]
        let answer: JSON = ["results": .array([result]), "accepted_sequence": accepted]
        #expect(try !lab.answer(answer, to: batch))
        #expect(try lab.strings("SELECT status FROM sluice_mutations") == ["sent"])
        try lab.create(Contact(name: "Ola"))
    }

    @Test func `a result that points to an earlier result's entity shows that entity`() throws {
        let lab = try Lab()
        try lab.create(Contact(name: "Kari"))
        let created = try #require(try lab.batch())
        #expect(try lab.succeed(created))
        var contact = try #require(try lab.pool.read { try Contact.fetchOne($0) })
        for number in ["1", "2"] {
            contact.phone = number
            try lab.update(contact)
        }
        let batch = try #require(try lab.batch())
        let current: JSON = [
            "entity_type": "contact", "id": "a", "version": 4, "deleted": false, "document": ["name": "Ola"],
        ]
        let errors: [JSON] = [
            ["code": "conflict", "current": current],
            ["code": "conflict", "current_at": "/results/0/error/current"],
        ]
        let results = zip(batch.rows, errors).map { row, error -> JSON in
            ["id": .string(row.id.wire), "status": "conflict", "error": error]
        }
        let answer: JSON = ["results": .array(results), "accepted_sequence": 3]
        #expect(try lab.answer(answer, to: batch))
        let conflicts = try lab.pool.read { try FailedWrite.fetchConflicts($0) }
        #expect(conflicts.map { $0.theirs?["document"]?["name"] } == ["Ola", "Ola"])
    }

    @Test(arguments: [JSON.string("/results/9/error/current"), "/results/x/error/current", "", .integer(1)])
    func `an unresolvable pointer leaves the result without an entity`(pointer: JSON) throws {
        let result: JSON = ["error": ["code": "conflict", "current_at": pointer]]
        let answer: JSON = ["results": .array([result])]
        #expect(answer.results.first?["error"]?["current"] == nil)
    }

    @Test func `ignores results of unknown writes`() throws {
        let lab = try Lab()
        try lab.create(Contact(name: "Kari"))
        let batch = try #require(try lab.batch())
        let result: JSON = ["id": .string(UUID().wire), "status": "succeeded", "version": 1]
        #expect(try !lab.answer(["results": .array([result]), "accepted_sequence": 1], to: batch))
        #expect(try lab.succeed(batch))
    }

    @Test(arguments: [Int64.min, -1, 0])
    func `ignores counters below one`(number: Int64) throws {
        let numbers: JSON = ["next_local_ids": ["folder": .integer(number), "job": 7]]
        #expect(numbers.nextLocalIDs == ["job": 7])
    }

    @Test func `uses the highest number that SQLite supports`() throws {
        let lab = try Lab([Folder.sync])
        try lab.pool.write { db in
            let numbers = DeviceNumbers(lab.map, db)
            try numbers.raise(to: ["folder": .max])
            #expect(try numbers.next() == ["folder": .max])
            #expect(try numbers.suspects(["folder": .max]).isEmpty)
            try db.execute(sql: "UPDATE sqlite_sequence SET seq = ?", arguments: [Int64.max])
            #expect(try numbers.next() == ["folder": .max])
        }
    }

    @Test func `the number of a table is kept under the declared name`() throws {
        let (key, columns) = (EntityKey.integer("id"), [SyncedColumn.text("name")])
        let lab = try Lab([EntitySync("folder", table: "FOLDER", key: key, columns: columns, idSpace: .device)])
        try lab.pool.write { try DeviceNumbers(lab.map, $0).raise(to: ["folder": 8]) }
        #expect(try lab.strings("SELECT name FROM sqlite_sequence WHERE lower(name) = 'folder'") == ["folder"])
        var folder = Folder(name: "First")
        try lab.pool.write { try folder.insert($0) }
        #expect(folder.id == 8)
    }

    @Test func `limits the memory for an event that does not end`() {
        var parser = EventParser()
        let line = Array("data: \(String(repeating: "x", count: 1 << 20))\n".utf8)
        for _ in 0..<12 { #expect(parser.take(line).isEmpty) }
        let events = parser.take(Array("\n".utf8))
        #expect(events.count == 1 && events[0].data.utf8.count <= EventParser.lineLimit + line.count)
    }

    @Test func `the list of blocking mutations contains only ids`() throws {
        let id = UUID()
        let json: JSON = [
            "id": .string(id.wire), "status": "blocked", "blocked_by": ["nonsense", 1, .string(id.wire)],
        ]
        #expect(try #require(MutationResult(json)).blockedBy == [.string(id.wire)])
    }
}
