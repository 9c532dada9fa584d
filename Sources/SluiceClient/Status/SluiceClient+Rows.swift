public import GRDB

extension SluiceClient {
    /// What is known of a row; nil where the library knows nothing of it.
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

    private func name<Record: Syncable>(
        of type: Record.Type,
        _ key: some DatabaseValueConvertible
    ) throws -> EntityName? {
        let entity = try map.entity(Record.sync.entityType)
        return entity.key.text(of: key.databaseValue).map { EntityName(entity.entityType, $0) }
    }
}
