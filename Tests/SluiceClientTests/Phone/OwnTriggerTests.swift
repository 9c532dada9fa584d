import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// The effects of the app's own triggers and defaults on the library's writes.
@Suite struct OwnTriggerTests {
    private static let id: JSON = "50000000-0000-4000-8000-000000000001"

    @Test func `a row whose change a trigger ignores is held, and its next edit conflicts`() throws {
        let lab = try Lab()
        try lab.change("contact", Self.id, version: 1, ["name": "Kari", "phone": "1"])
        try lab.pool.write { db in
            try db.execute(sql: "CREATE TRIGGER keep BEFORE UPDATE ON contact BEGIN SELECT RAISE(IGNORE); END")
        }
        try lab.change("contact", Self.id, version: 2, ["name": "Ola", "phone": "1"])
        #expect(try lab.pool.read { try HeldRow.fetchAll($0) }.count == 1)
        try lab.pool.write { try $0.execute(sql: "DROP TRIGGER keep") }
        var shown = try #require(try lab.pool.read { try Contact.fetchOne($0) })
        #expect(shown.name == "Kari")
        shown.phone = "2"
        try lab.update(shown)
        // the edit is based on the version that the user saw, which is not the server's
        #expect(try lab.strings("SELECT base_version FROM sluice_mutations") == ["1"])
    }

    @Test func `a row whose deletion a trigger ignores is held`() throws {
        let lab = try Lab()
        try lab.change("contact", Self.id, version: 1, ["name": "Kari"])
        try lab.pool.write { db in
            try db.execute(sql: "CREATE TRIGGER keep BEFORE DELETE ON contact BEGIN SELECT RAISE(IGNORE); END")
        }
        try lab.change("contact", Self.id, version: 2, nil)
        #expect(try lab.pool.read { try HeldRow.fetchAll($0) }.count == 1)
        try lab.pool.write { db in
            try db.execute(sql: "DROP TRIGGER keep")
            let rows = Projection(lab.map, db, now: Date())
            try rows.refresh(rows.held(limit: 10))
        }
        #expect(try lab.pool.read { try Contact.fetchCount($0) + HeldRow.fetchAll($0).count } == 0)
    }

    @Test func `a column with its default value does not count as edited`() throws {
        let lab = try Lab(
            [Contact.sync],
            """
            DROP TABLE visit; DROP TABLE contact;
            CREATE TABLE contact (id BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL, phone TEXT NOT NULL DEFAULT '')
            """
        )
        try lab.change("contact", Self.id, version: 1, ["name": "Kari"])
        var shown = try #require(try lab.pool.read { try Contact.fetchOne($0) })
        #expect(shown.phone == "")
        shown.name = "Ola"
        try lab.update(shown)
        #expect(try lab.strings("SELECT payload FROM sluice_mutations") == [#"{"name":"Ola"}"#])
        shown.phone = "1"
        try lab.update(shown)
        #expect(try lab.strings("SELECT payload FROM sluice_mutations").last == #"{"phone":"1"}"#)
    }
}
