public import Foundation
public import GRDB

/// A row and its mutation in one call.
extension SluiceClient {
    /// Inserts a row and enqueues its creation.
    ///
    /// - Returns: the mutation's id, by which to ask for its ``outcome(of:)``.
    /// - Throws: what `insert` and ``enqueue(_:in:)`` throw.
    @discardableResult
    public func insert<Record: Syncable & PersistableRecord>(
        _ record: Record,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.insert(db)
            return try enqueue(.create(record, options), in: db)
        }
    }

    /// Inserts a row whose key SQLite gives it, as types with device ids have it, and enqueues its creation.
    ///
    /// - Returns: the mutation's id, by which to ask for its ``outcome(of:)``.
    /// - Throws: what `insert` and ``enqueue(_:in:)`` throw.
    @discardableResult
    public func insert<Record: Syncable & MutablePersistableRecord>(
        _ record: inout Record,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.insert(db)
            return try enqueue(.create(record, options), in: db)
        }
    }

    /// Updates a row and enqueues the change.
    ///
    /// - Returns: the mutation's id; nil if nothing has changed that is synchronized.
    /// - Throws: what `update` and ``enqueue(_:in:)`` throw.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.update(db)
            return try enqueue(.update(record, options), in: db)
        }
    }

    /// Updates a row that a person has changed since it was read, and enqueues the person's changes:
    /// ``Write/update(_:from:_:)``.
    ///
    /// - Parameter original: the record as it was read.
    /// - Returns: the mutation's id; nil if nothing has changed that is synchronized.
    /// - Throws: what `update` and ``enqueue(_:in:)`` throw.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        from original: Record,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.update(db)
            return try enqueue(.update(record, from: original, options), in: db)
        }
    }

    /// Deletes a row and enqueues its deletion.
    ///
    /// - Returns: the mutation's id, by which to ask for its ``outcome(of:)``.
    /// - Throws: what `delete` and ``enqueue(_:in:)`` throw.
    @discardableResult
    public func delete<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.delete(db)
            return try enqueue(.delete(record, options), in: db)
        }
    }

    /// Enqueues the creation of every row that the library has no record of.
    ///
    /// It is for an app that had rows before it had the library: call it once, after the migration. A row is enqueued
    /// after the rows of its type that it names. For rows of other types, enqueue those first, or all with one call:
    /// ``enqueueUnknown(of:_:in:)``.
    ///
    /// Rows that the server already has are created there again. If that is possible, pull first, with keys that are
    /// the server's ids.
    ///
    /// - Returns: how many rows were enqueued.
    /// - Throws: what ``enqueue(_:in:)`` throws.
    @discardableResult
    public func enqueueUnknown<Record: Syncable>(
        _ type: Record.Type,
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> Int {
        try enqueueUnknown(of: [type], options, in: db)
    }

    /// Enqueues the creation of every row of several types that the library has no record of.
    ///
    /// Each row is enqueued after the rows that it names: the order of the types does not matter.
    ///
    /// Rows that the server already has are created there again. If that is possible, pull first, with keys that are
    /// the server's ids. A table is read a few hundred rows at a time.
    ///
    /// - Returns: how many rows were enqueued.
    /// - Throws: ``SluiceError/invalid(_:)`` also for rows that name each other in a circle; what ``enqueue(_:in:)``
    ///   throws.
    @discardableResult
    public func enqueueUnknown(
        of types: [any Syncable.Type],
        _ options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> Int {
        try checkTransaction(db)
        let names = types.map { $0.sync.entityType }
        let rows = UnknownRows(map, db, of: Set(names)) { [self] entity, values in
            try enqueue(Write(row: values, of: entity.entityType, options), in: db)
        }
        return try names.map { try rows.enqueueAll(of: map.entity($0)) }.reduce(0, +)
    }

    /// Both or neither, also if the app catches the error and commits the rest of its transaction.
    private func together(in db: Database, _ body: () throws -> UUID?) throws -> UUID? {
        try checkTransaction(db)
        var id: UUID?
        try db.inSavepoint {
            id = try body()
            return .commit
        }
        return id
    }
}
