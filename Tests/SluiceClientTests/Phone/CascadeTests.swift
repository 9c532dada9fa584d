import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// Rows that SQLite deletes by a cascade. No user has deleted them, and they return together with the rows that they
/// reference.
@Suite struct CascadeTests {
    /// A node of a tree in one table.
    private struct Node: Codable, Hashable, FetchableRecord, PersistableRecord, Syncable {
        var id = UUID()
        var parentID: UUID?
        var name: String

        static let sync = EntitySync(
            "node",
            table: "node",
            key: .uuid("id"),
            columns: [.reference("parentID", as: "parent", to: "node"), .text("name")]
        )

        static func change(_ id: UUID, _ version: Int64, under parent: UUID?, _ name: String) -> JSON {
            var document: JSON = ["name": .string(name)]
            document["parent"] = parent.map { .string($0.wire) }
            return Told.change("node", id, version, document)
        }
    }

    private static func tree(_ action: String) throws -> OfflinePhone {
        try OfflinePhone(
            [Node.sync],
            """
            CREATE TABLE node (
                id BLOB PRIMARY KEY NOT NULL, parentID BLOB REFERENCES node (id) ON DELETE \(action), name TEXT NOT NULL)
            """
        )
    }

    @Test func `rows deleted by nested cascades return with their root`() throws {
        let phone = try OfflinePhone([Contact.sync, Visit.sync, Photo.sync], Photo.table)
        let (contact, visit, photo) = (UUID(), UUID(), UUID())
        try phone.pull(
            Told.change("contact", contact, 1, ["name": "Kari"]),
            Told.change("visit", visit, 1, ["contact_id": .string(contact.wire), "title": "First"]),
            Told.change("photo", photo, 1, ["visit_id": .string(visit.wire), "caption": "a"])
        )
        #expect(try phone.all(Photo.self).count == 1)
        try phone.pull(Told.change("contact", contact, 2, nil))
        #expect(try phone.all(Visit.self) == [])
        #expect(try phone.held().map(\.key).sorted() == [visit.wire, photo.wire].sorted())
        try phone.pull(Told.change("contact", contact, 3, ["name": "Kari"]))
        #expect(try phone.all(Visit.self).map(\.title) == ["First"])
        #expect(try phone.all(Photo.self).map(\.caption) == ["a"])
        #expect(try phone.held() == [])
    }

    @Test func `a branch moved away from a deleted root is shown completely`() throws {
        let phone = try Self.tree("CASCADE")
        let (root, branch, leaf) = (UUID(), UUID(), UUID())
        try phone.pull(
            Node.change(root, 1, under: nil, "root"),
            Node.change(branch, 1, under: root, "branch"),
            Node.change(leaf, 1, under: branch, "leaf")
        )
        try phone.pull(Told.change("node", root, 2, nil))
        #expect(try phone.all(Node.self) == [])
        try phone.pull(Node.change(branch, 2, under: nil, "branch"))
        #expect(try phone.texts("SELECT name FROM node ORDER BY name") == ["branch", "leaf"])
        #expect(try phone.held() == [])
    }

    @Test func `rows that reference each other in a cycle are deleted together, and each is held once`() throws {
        let phone = try Self.tree("CASCADE")
        let (first, second) = (UUID(), UUID())
        try phone.pull(Node.change(first, 1, under: nil, "a"), Node.change(second, 1, under: first, "b"))
        try phone.pull(Node.change(first, 2, under: second, "a"))
        try phone.pull(Told.change("node", first, 3, nil))
        #expect(try phone.held().map(\.key) == [second.wire])
    }
}
