public import GRDB

extension SluiceClient {
    /// Returns the synchronization state of a row; nil if the library has no record of it.
    ///
    /// - Throws: ``SluiceError/configuration(_:)`` for a record that is not among the client's entities.
    public func row<Record: Syncable>(
        of type: Record.Type,
        key: some DatabaseValueConvertible,
        in db: Database
    ) throws -> SyncedRow? {
        try name(of: type, key).flatMap { try SyncedRow.fetch(db, $0) }
    }

    /// The permanent id of a row, in its own JSON kind; nil until the server has given one.
    ///
    /// - Throws: ``SluiceError/configuration(_:)`` for a record that is not among the client's entities.
    public func serverID<Record: Syncable>(
        of type: Record.Type,
        key: some DatabaseValueConvertible,
        in db: Database
    ) throws -> JSON? {
        try name(of: type, key).flatMap { try IDMapping.of($0.entityType, key: $0.key, db)?.serverID }
    }

    /// Returns the record as the server has it, without this phone's writes.
    ///
    /// A person compares it with a failed or conflicting version. Columns that are not synchronized are as the row has
    /// them.
    ///
    /// - Returns: nil if the server has no such entity, or it was deleted.
    /// - Throws: ``SluiceError/configuration(_:)`` for a record that is not of the write's type.
    ///   ``SluiceError/invalid(_:)`` if a member does not fit its column. Errors of the record's decoding, for example
    ///   for a column that is not synchronized, may not be NULL and has no row to take it from.
    public func theirs<Record: Syncable & FetchableRecord>(
        of write: FailedWrite,
        as type: Record.Type,
        in db: Database
    ) throws -> Record? {
        guard write.entityType == Record.sync.entityType else {
            throw SluiceError.configuration(
                "the write is of '\(write.entityType)' and not of '\(Record.sync.entityType)'"
            )
        }
        guard let key = write.key else { return nil }
        let entity = try map.entity(write.entityType)
        let name = EntityName(entity.entityType, key)
        let base = try ServerSnapshot.of(name, db)
        if let current = write.theirs, current["version"]?.int64 ?? .max > base?.version ?? 0 {
            // received with the refusal, and not pulled yet
            guard let document = current["document"], !document.isNull, current["deleted"]?.bool != true else {
                return nil
            }
            let local = try Identities(map, db, now: configuration.now(), isReading: true).toLocal(
                document,
                entity,
                numbersAre: .server
            )
            return try Record(row: entity.row(name, local, map, db))
        }
        guard let document = base?.document, base?.isDeleted == false else { return nil }
        return try Record(row: entity.row(name, document, map, db))
    }

    /// Tries to write the rows that are kept out of the app's tables, after the app has changed what keeps them out.
    ///
    /// - Returns: the rows that are still held.
    /// - Throws: the database's errors.
    @discardableResult
    public func writeHeldRows(in db: Database) throws -> [HeldRow] {
        let rows = Projection(map, db, now: configuration.now())
        try rows.refresh(HeldRow.fetchAll(db).map { EntityName($0.entityType, $0.key) })
        return try HeldRow.fetchAll(db)
    }

    private func name<Record: Syncable>(
        of type: Record.Type,
        _ key: some DatabaseValueConvertible
    ) throws -> EntityName? {
        let entity = try map.entity(Record.sync.entityType)
        return entity.key.text(of: key.databaseValue).map { EntityName(entity.entityType, $0) }
    }
}
