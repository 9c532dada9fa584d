public import GRDB

extension SluiceClient {
    /// Returns the synchronization state of a row; nil if the row was neither enqueued nor pulled.
    ///
    /// - Throws: ``SluiceError/configuration(_:)`` for a record that is not among the client's entities.
    public func row<Record: Syncable>(
        of type: Record.Type,
        key: some DatabaseValueConvertible,
        in db: Database
    ) throws -> SyncedRow? {
        try name(of: type, key).flatMap { try SyncedRow.fetch(db, $0) }
    }

    /// Returns the permanent id of a row, with its JSON type; nil until the server has assigned an id.
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
    /// With this record, a person can compare the server's version with a failed or conflicting write. Columns that are
    /// not synchronized have the values of the app's row.
    ///
    /// - Returns: nil if the server has no such entity, or it was deleted.
    /// - Throws: ``SluiceError/configuration(_:)`` if the record does not have the write's entity type.
    ///   ``SluiceError/invalid(_:)`` if a member does not fit its column. Errors of the record's decoding, for example
    ///   if there is no row that provides the value of a column that is not synchronized and must not be NULL.
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
            // the entity was received with the refusal and is not pulled yet
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

    /// Tries again to write the held rows, for example after the app has removed the cause.
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
