public import Foundation
public import GRDB

/// Methods that change a row and enqueue the mutation in one call.
extension SluiceClient {
    /// Inserts a row and enqueues its creation.
    ///
    /// - Returns: the mutation's id, for which ``outcome(of:)`` returns the outcome.
    /// - Throws: the errors of `insert` and ``enqueue(_:in:)``.
    @discardableResult
    public func insert<Record: Syncable & PersistableRecord>(
        _ record: Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.insert(db)
            return try enqueue(.create(record, options: options), in: db)
        }
    }

    /// Inserts a row whose key SQLite assigns, as for types with local ids, and enqueues its creation.
    ///
    /// - Returns: the mutation's id, for which ``outcome(of:)`` returns the outcome.
    /// - Throws: the errors of `insert` and ``enqueue(_:in:)``.
    @discardableResult
    public func insert<Record: Syncable & MutablePersistableRecord>(
        _ record: inout Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.insert(db)
            return try enqueue(.create(record, options: options), in: db)
        }
    }

    /// Updates a row and enqueues the change.
    ///
    /// - Returns: the mutation's id; nil if no synchronized value has changed.
    /// - Throws: the errors of `update` and ``enqueue(_:in:)``.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.update(db)
            return try enqueue(.update(record, options: options), in: db)
        }
    }

    /// Updates a row that a person has edited since it was read, and enqueues only the person's changes
    /// (``Write/update(_:from:options:)``).
    ///
    /// - Parameter original: the record as it was read.
    /// - Returns: the mutation's id; nil if no synchronized value has changed.
    /// - Throws: the errors of `update` and ``enqueue(_:in:)``.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        from original: Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.update(db)
            return try enqueue(.update(record, from: original, options: options), in: db)
        }
    }

    /// Deletes a row and enqueues its deletion.
    ///
    /// - Returns: the mutation's id, for which ``outcome(of:)`` returns the outcome; nil for a row that is already
    ///   deleted at the server, but still shown because its deletion is held (``HeldRow/isDeletion``), and for a row
    ///   whose create was discarded. In both cases, there is nothing to send.
    /// - Throws: the errors of `delete` and ``enqueue(_:in:)``.
    @discardableResult
    public func delete<Record: Syncable & MutablePersistableRecord>(
        _ record: Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        try together(in: db) {
            try record.delete(db)
            return try enqueue(.delete(record, options: options), in: db)
        }
    }

    /// Updates the row with the record's key or inserts a new row, and enqueues the change.
    ///
    /// - Returns: the mutation's id; nil if no synchronized value has changed.
    /// - Throws: the errors of `save` and ``enqueue(_:in:)``.
    @discardableResult
    public func save<Record: Syncable & PersistableRecord>(
        _ record: Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        let exists = try record.exists(db)
        return try exists ? update(record, options: options, in: db) : insert(record, options: options, in: db)
    }

    /// Updates the row with the record's key or inserts a new row whose key SQLite assigns, and enqueues the change.
    ///
    /// - Returns: the mutation's id; nil if no synchronized value has changed.
    /// - Throws: the errors of `save` and ``enqueue(_:in:)``.
    @discardableResult
    public func save<Record: Syncable & MutablePersistableRecord>(
        _ record: inout Record,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> UUID? {
        let exists = try record.exists(db)
        return try exists ? update(record, options: options, in: db) : insert(&record, options: options, in: db)
    }

    /// Enqueues the creation of every row that was neither enqueued nor pulled before.
    ///
    /// If an app had rows before it used the library, call this method once, after the migration. A row is enqueued
    /// after the rows of the same type to which it refers. If it refers to rows of other types, enqueue those types
    /// first, or enqueue all types with one call of ``enqueueUnknown(of:options:in:)``.
    ///
    /// Rows that the server already has are created a second time at the server. If the server may have some of the
    /// rows, use the server's ids as the keys of these rows, and pull first.
    ///
    /// - Returns: the number of enqueued rows.
    /// - Throws: the errors of ``enqueue(_:in:)``.
    @discardableResult
    public func enqueueUnknown<Record: Syncable>(
        _ type: Record.Type,
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> Int {
        try enqueueUnknown(of: [type], options: options, in: db)
    }

    /// Enqueues the creation of every row of several types that was neither enqueued nor pulled before.
    ///
    /// Each row is enqueued after the rows to which it refers, so the order of the types does not matter.
    ///
    /// Rows that the server already has are created a second time at the server. If the server may have some of the
    /// rows, use the server's ids as the keys of these rows, and pull first. A table is read a few hundred rows at a
    /// time.
    ///
    /// - Returns: the number of enqueued rows.
    /// - Throws: ``SluiceError/invalid(_:)`` for rows that refer to each other in a circle; the errors of
    ///   ``enqueue(_:in:)``.
    @discardableResult
    public func enqueueUnknown(
        of types: [any Syncable.Type],
        options: Write.Options = Write.Options(),
        in db: Database
    ) throws -> Int {
        try checkTransaction(db)
        let names = types.map { $0.sync.entityType }
        let rows = UnknownRows(map, db, of: Set(names)) { [self] entity, values in
            try enqueue(Write(row: values, of: entity.entityType, options), in: db)
        }
        return try names.map { try rows.enqueueAll(of: map.entity($0)) }.reduce(0, +)
    }

    // MARK: - In a separate transaction

    /// Inserts a row and enqueues its creation, in a separate transaction. See `insert(_:options:in:)`.
    @discardableResult
    public func insert<Record: Syncable & PersistableRecord & Sendable>(
        _ record: Record,
        options: Write.Options = Write.Options()
    ) async throws -> UUID? {
        try await database.write { [self] db in try insert(record, options: options, in: db) }
    }

    /// Updates a row and enqueues the change, in a separate transaction. See ``update(_:options:in:)``.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord & Sendable>(
        _ record: Record,
        options: Write.Options = Write.Options()
    ) async throws -> UUID? {
        try await database.write { [self] db in try update(record, options: options, in: db) }
    }

    /// Updates a row that a person has edited since it was read, in a separate transaction. See
    /// ``update(_:from:options:in:)``.
    @discardableResult
    public func update<Record: Syncable & MutablePersistableRecord & Sendable>(
        _ record: Record,
        from original: Record,
        options: Write.Options = Write.Options()
    ) async throws -> UUID? {
        try await database.write { [self] db in try update(record, from: original, options: options, in: db) }
    }

    /// Updates or inserts a row, in a separate transaction. See `save(_:options:in:)`.
    @discardableResult
    public func save<Record: Syncable & PersistableRecord & Sendable>(
        _ record: Record,
        options: Write.Options = Write.Options()
    ) async throws -> UUID? {
        try await database.write { [self] db in try save(record, options: options, in: db) }
    }

    /// Deletes a row and enqueues its deletion, in a separate transaction. See ``delete(_:options:in:)``.
    @discardableResult
    public func delete<Record: Syncable & MutablePersistableRecord & Sendable>(
        _ record: Record,
        options: Write.Options = Write.Options()
    ) async throws -> UUID? {
        try await database.write { [self] db in try delete(record, options: options, in: db) }
    }

    /// Runs the row's change and the enqueuing in a savepoint. Both take effect or neither does, even if the app
    /// catches the error and commits the rest of its transaction.
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
