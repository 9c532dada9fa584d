import Foundation
import GRDB
import SluiceClient

/// A record of the fleet's app.
///
/// Each write sets `mark` to a unique text. In the data of the gateway or the upstream, the mark identifies the write
/// and its order.
protocol Marked: Codable, FetchableRecord, MutablePersistableRecord, Syncable, Sendable {
    var mark: String { get set }
    /// The other columns that an edit changes.
    mutating func touch()
    /// The path at an upstream; nil for a type that the upstream does not support.
    static var endpoint: String? { get }
}

extension Marked {
    /// The member of documents that contains the mark. Its name is the shortest, so that it is first.
    static var markMember: String { "_" }

    /// - Parameter forwards: whether the type is replayed against an upstream.
    static func sync(forwards: Bool) -> EntitySync {
        EntitySync(
            sync.entityType,
            table: sync.table,
            key: sync.key,
            columns: sync.columns,
            idSpace: sync.idSpace,
            endpoint: forwards ? endpoint : nil
        )
    }
}

/// Mapped ids.
struct Customer: Marked {
    var id = UUID()
    var mark: String
    var name: String
    var phone: String?

    static let sync = EntitySync(
        "customer",
        table: "customer",
        key: .uuid("id"),
        columns: [.text("mark", as: markMember), .text("name"), .text("phone")]
    )
    static let endpoint: String? = "/customers"

    mutating func touch() { phone = "p" + mark }
}

/// Mapped ids, with references to mapped ids, in a column and in JSON.
struct Meeting: Marked {
    var id = UUID()
    var mark: String
    var customerID: UUID
    var title: String
    var amount: String?
    /// JSON: `{"guests": [ID, …]}`
    var details: String?

    static let sync = EntitySync(
        "meeting",
        table: "meeting",
        key: .uuid("id"),
        columns: [
            .text("mark", as: markMember), .reference("customerID", as: "customer_id", to: "customer"), .text("title"),
            .decimal("amount"), .json("details", references: ["/guests/*": "customer"]),
        ]
    )
    static let endpoint: String? = "/meetings"

    mutating func touch() { title = "t" + mark }
}

/// Device ids.
struct Shelf: Marked {
    var id: Int64?
    var mark: String
    var name: String

    static let sync = EntitySync(
        "shelf",
        table: "shelf",
        key: .integer("id"),
        columns: [.text("mark", as: markMember), .text("name")],
        idSpace: .device
    )
    static let endpoint: String? = "/shelves"

    mutating func touch() { name = "n" + mark }
    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// Device ids, with references to device ids.
struct Item: Marked {
    var id: Int64?
    var mark: String
    var text: String
    var shelfID: Int64?

    static let sync = EntitySync(
        "item",
        table: "item",
        key: .integer("id"),
        columns: [.text("mark", as: markMember), .text("text"), .reference("shelfID", as: "shelf_id", to: "shelf")],
        idSpace: .device
    )
    static let endpoint: String? = "/items"

    mutating func touch() { text = "t" + mark }
    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// Shared ids, which the app generates, with references to both other kinds. A REST API that assigns ids, such as the
/// demo's, does not support this type, so it is always in the built-in store.
struct Memo: Marked {
    var id = UUID()
    var mark: String
    var text: String
    var customerID: UUID?
    var shelfID: Int64?

    static let sync = EntitySync(
        "memo",
        table: "memo",
        key: .uuid("id"),
        columns: [
            .text("mark", as: markMember), .text("text"), .reference("customerID", as: "customer_id", to: "customer"),
            .reference("shelfID", as: "shelf_id", to: "shelf"),
        ],
        idSpace: .shared
    )
    static let endpoint: String? = nil

    mutating func touch() { text = "t" + mark }
}

extension DatabaseMigrator {
    static let fleet: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("app") { db in
            try db.execute(
                sql: """
                    CREATE TABLE customer (id BLOB PRIMARY KEY NOT NULL, mark TEXT NOT NULL, name TEXT NOT NULL, phone TEXT);
                    CREATE TABLE meeting (
                        id BLOB PRIMARY KEY NOT NULL, mark TEXT NOT NULL,
                        customerID BLOB NOT NULL REFERENCES customer (id) ON DELETE CASCADE,
                        title TEXT NOT NULL, amount TEXT, details TEXT);
                    CREATE TABLE shelf (id INTEGER PRIMARY KEY AUTOINCREMENT, mark TEXT NOT NULL, name TEXT NOT NULL);
                    CREATE TABLE item (
                        id INTEGER PRIMARY KEY AUTOINCREMENT, mark TEXT NOT NULL, text TEXT NOT NULL,
                        shelfID INTEGER REFERENCES shelf (id) ON DELETE SET NULL);
                    CREATE TABLE memo (
                        id BLOB PRIMARY KEY NOT NULL, mark TEXT NOT NULL, text TEXT NOT NULL,
                        customerID BLOB REFERENCES customer (id), shelfID INTEGER REFERENCES shelf (id));
                    -- memos that this phone has deleted: only ids of this kind may be created again
                    CREATE TABLE deleted_memo (id BLOB PRIMARY KEY NOT NULL);
                    -- outcomes of writes that the library has deleted, which happens early if clocks jump
                    CREATE TABLE pruned (id TEXT PRIMARY KEY NOT NULL, status TEXT NOT NULL);
                    CREATE TRIGGER prune AFTER DELETE ON sluice_mutations BEGIN
                        INSERT INTO pruned VALUES (old.id, old.status);
                    END;
                    """
            )
        }
        return migrator
    }()
}
