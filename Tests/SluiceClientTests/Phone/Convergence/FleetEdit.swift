import Foundation
import GRDB
import SluiceClient

/// One random edit of an app: rows and writes in one transaction.
struct FleetEdit: Sendable {
    enum Kind: CaseIterable {
        case makeCustomer, changeCustomer, renameCustomer
        case makeMeeting, changeMeeting, moveMeeting, deleteMeeting
        case makeShelf, changeShelf, makeItem, changeItem, moveItem, deleteItem
        case makeMemo, changeMemo, moveMemo, deleteMemo, remakeMemo
        case refused
        /// These delete a row to which other rows refer.
        case deleteCustomer, deleteShelf
    }

    let kind: Kind
    let mark: String
    /// The index of an existing row.
    private let picks: (UInt64, UInt64)
    private let forwards: Bool

    /// - Parameters:
    ///   - deletesParents: whether to delete rows that other rows reference.
    ///   - mark: a mark that is unique to this edit.
    ///   - forwards: whether types are replayed against an upstream.
    init(mark: String, forwards: Bool, deletesParents: Bool, using random: inout some RandomNumberGenerator) {
        // all kinds except the destructive ones are equally frequent
        let kinds = Kind.allCases.flatMap { kind in
            switch kind {
            case .deleteCustomer, .deleteShelf: deletesParents ? [kind] : []
            case .deleteMeeting, .deleteItem, .deleteMemo, .refused, .makeShelf: [kind]
            default: [kind, kind, kind]
            }
        }
        kind = kinds.randomElement(using: &random) ?? .makeCustomer
        self.mark = mark
        self.forwards = forwards
        picks = (random.next(), random.next())
    }

    /// Executes the edit in a transaction.
    ///
    /// A row that a foreign key keeps in its table, or whose create was discarded while later writes wait, cannot be
    /// referenced. The app gets an error, and nothing is written.
    func make(on pool: DatabasePool, _ client: SluiceClient) async throws {
        struct IsGone: Error {}
        do {
            try await pool.write { db in
                do {
                    _ = try make(db, client)
                } catch SluiceError.unknownEntity(let type, let key), SluiceError.deleted(let type, let key) {
                    // checked here, because the row may be deleted later
                    let isHeld = try HeldRow.fetchAll(db).contains { $0.entityType == type && $0.key == key }
                    let creates = "entity_type = ? AND key = ? AND operation = 'create'"
                    let isDiscarded = try Bool.fetchOne(
                        db,
                        sql: "SELECT max(status = 'discarded') FROM sluice_mutations WHERE \(creates)",
                        arguments: [type, key]
                    )
                    if isHeld || isDiscarded ?? false { throw IsGone() }
                    throw SluiceError.unknownEntity(entityType: type, key: key)
                }
            }
        } catch is IsGone {
            // nothing is written
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY {
            // a memo refers to the deleted row, and the app's own tables refuse that
        }
    }

    /// Executes the edit if its rows exist.
    ///
    /// - Returns: the mutation's id.
    private func make(_ db: Database, _ client: SluiceClient) throws -> UUID? {
        switch kind {
        case .makeCustomer: try create(Customer(mark: mark, name: "c" + mark), db, client)
        case .changeCustomer: try update(Customer.self, db, client) { $0.touch() }
        case .renameCustomer: try update(Customer.self, db, client) { $0.name = "n" + mark }
        case .makeMeeting: try makeMeeting(db, client)
        case .changeMeeting: try update(Meeting.self, db, client) { $0.touch() }
        case .moveMeeting:
            try update(Meeting.self, db, client) { $0.customerID = try any(Customer.self, db)?.id ?? $0.customerID }
        case .deleteMeeting: try delete(Meeting.self, db, client)
        case .makeShelf: try create(Shelf(mark: mark, name: "s" + mark), db, client)
        case .changeShelf: try update(Shelf.self, db, client) { $0.touch() }
        case .makeItem:
            try create(Item(mark: mark, text: "i" + mark, shelfID: try any(Shelf.self, db)?.id), db, client)
        case .changeItem: try update(Item.self, db, client) { $0.touch() }
        case .moveItem: try update(Item.self, db, client) { $0.shelfID = try any(Shelf.self, db)?.id }
        case .deleteItem: try delete(Item.self, db, client)
        case .makeMemo:
            try create(Memo(mark: mark, text: "m" + mark, customerID: try any(Customer.self, db)?.id), db, client)
        case .changeMemo: try update(Memo.self, db, client) { $0.touch() }
        case .moveMemo:
            try update(Memo.self, db, client) { memo in
                memo.customerID = try any(Customer.self, db)?.id
                memo.shelfID = try any(Shelf.self, db)?.id
            }
        case .deleteMemo: try deleteMemo(db, client)
        case .remakeMemo: try remakeMemo(db, client)
        case .refused: try makeRefused(db, client)
        case .deleteCustomer: try delete(Customer.self, db, client)
        case .deleteShelf: try delete(Shelf.self, db, client)
        }
    }

    // MARK: - Any record

    /// One of the rows, chosen deterministically by the pick and the table.
    private func any<Record: Marked>(_ type: Record.Type, _ db: Database, _ pick: UInt64? = nil) throws -> Record? {
        let count = try type.fetchCount(db)
        guard count > 0 else { return nil }
        let offset = Int((pick ?? picks.1) % UInt64(count))
        return try type.order(Column("id")).limit(1, offset: offset).fetchOne(db)
    }

    private func create<Record: Marked>(_ record: Record, _ db: Database, _ client: SluiceClient) throws -> UUID? {
        var record = record
        try record.insert(db)
        return try client.enqueue(.create(record), in: db)
    }

    private func update<Record: Marked>(
        _ type: Record.Type,
        _ db: Database,
        _ client: SluiceClient,
        _ options: Write.Options = Write.Options(),
        _ change: (inout Record) throws -> Void
    ) throws -> UUID? {
        guard var record = try any(type, db, picks.0) else { return nil }
        try change(&record)
        record.mark = mark
        try record.update(db)
        return try client.enqueue(.update(record, options: options), in: db)
    }

    private func delete<Record: Marked>(_ type: Record.Type, _ db: Database, _ client: SluiceClient) throws -> UUID? {
        guard let record = try any(type, db, picks.0) else { return nil }
        try record.delete(db)
        return try client.enqueue(.delete(record), in: db)
    }

    // MARK: - Single records

    private func makeMeeting(_ db: Database, _ client: SluiceClient) throws -> UUID? {
        guard let customer = try any(Customer.self, db) else { return nil }
        var meeting = Meeting(mark: mark, customerID: customer.id, title: "v" + mark, amount: "1.10")
        meeting.details = #"{"guests":["\#(customer.id.uuidString.lowercased())"]}"#
        return try create(meeting, db, client)
    }

    private func deleteMemo(_ db: Database, _ client: SluiceClient) throws -> UUID? {
        guard let memo = try any(Memo.self, db, picks.0) else { return nil }
        try db.execute(sql: "INSERT OR IGNORE INTO deleted_memo VALUES (?)", arguments: [memo.id])
        return try delete(Memo.self, db, client)
    }

    /// Creates a deleted memo again. If both users do so concurrently, one of the creates is a conflict.
    private func remakeMemo(_ db: Database, _ client: SluiceClient) throws -> UUID? {
        let sql = "SELECT id FROM deleted_memo WHERE id NOT IN (SELECT id FROM memo) ORDER BY id"
        let ids = try UUID.fetchAll(db, sql: sql)
        guard !ids.isEmpty else { return nil }
        return try create(Memo(id: ids[Int(picks.0 % UInt64(ids.count))], mark: mark, text: "r" + mark), db, client)
    }

    /// Makes a write without an effect, which is too large for the gateway, or for a path that the upstream lacks.
    private func makeRefused(_ db: Database, _ client: SluiceClient) throws -> UUID? {
        if forwards, picks.1 % 2 == 0 {
            var options = Write.Options()
            options.endpoint = "/nowhere/{local_id}"
            return try update(Customer.self, db, client, options) { $0.touch() }
        }
        let text = String(repeating: "x", count: 300_000)
        if picks.1 % 3 == 0 { return try create(Customer(mark: mark, name: text), db, client) }
        return try update(Memo.self, db, client) { $0.text = text }
    }
}
