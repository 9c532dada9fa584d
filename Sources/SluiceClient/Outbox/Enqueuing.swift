import Foundation
import GRDB

/// Creates mutations for writes, in the app's own transaction.
struct Enqueuing {
    let map: EntityMap
    let db: Database
    /// The number of the new mutation.
    let sequence: Int64
    let now: Date
    /// The maximum nesting of a payload that the gateway accepts.
    private static let depth = 64
    private let identities: Identities
    private let rows: Projection

    init(_ map: EntityMap, _ db: Database, sequence: Int64, now: Date) {
        self.map = map
        self.db = db
        self.sequence = sequence
        self.now = now
        identities = Identities(map, db, now: now)
        rows = Projection(map, identities, db)
    }

    /// - Returns: the mutation's id; nil for an update that changes nothing, and for the deletion of a row that is
    ///   already deleted.
    func enqueue(_ write: Write) throws -> UUID? {
        if let key = write.options.orderKey {
            let bytes = key.utf8
            guard (1...128).contains(bytes.count), bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
                throw SluiceError.invalid("an order key has 1 to 128 bytes and no control characters")
            }
        }
        switch write.content {
        case .record(let operation, let type, let values, let original):
            let entity = try map.entity(type)
            return try enqueue(operation, entity, try entity.key(of: values), values, original, write.options)
        case .deletion(let type, let value):
            let entity = try map.entity(type)
            guard let key = entity.key.text(of: value) else { throw SluiceError.invalid("\(value) is not a valid key") }
            return try enqueue(.delete, entity, key, [:], nil, write.options)
        case .request(let request): return try enqueue(request, write.options)
        }
    }

    // MARK: - Records

    private func enqueue(
        _ operation: RowOperation,
        _ entity: EntitySync,
        _ key: String,
        _ values: [String: DatabaseValue],
        _ original: [String: DatabaseValue]?,
        _ options: Write.Options
    ) throws -> UUID? {
        let name = EntityName(entity.entityType, key)
        var payload: JSON?
        var isOverlapping = false
        switch operation {
        case .create:
            payload = try entity.document(of: values, map)
            try makeMapping(entity, name)
        case .update:
            let edit = try UpdateEdit(
                entity,
                map,
                shown: shown(entity, name),
                original: original.map { try entity.document(of: $0, map) },
                edited: entity.document(of: values, map),
                standard: { try rows.standard(of: $0, in: entity) }
            )
            payload = edit.patch
            isOverlapping = edit.isOverlapping
            if original != nil, edit.patch == nil { try rows.refresh(entity, name.key) }
            guard edit.patch != nil else { return nil }
        case .replace:
            // keep the members that this version of the app does not map
            let others = try shown(entity, name).object ?? [:]
            let own = try entity.document(of: values, map)
            let names = Set(entity.columns.map(\.member))
            payload = .object(others.filter { !names.contains($0.key) }.merging(own.object ?? [:]) { $1 })
        case .delete: if try completeDeletion(entity, name) { return nil }
        }
        let wire = try payload.map { payload in
            do {
                guard !payload.isDeeper(than: Self.depth) else {
                    throw SluiceError.invalid("a payload can have \(Self.depth) nested levels; this one has more")
                }
                return try identities.toWire(payload, entity)
            } catch {
                // if the create cannot be enqueued, the library must have no record of the row
                if operation == .create { try identities.forget(name) }
                throw error
            }
        }
        let (localID, serverID) = try names(of: entity, name)
        var needed = wire?.pending ?? []
        if operation != .create, let localID, try identities.mapping(name)?.status != .resolved {
            needed.append(ClientName(name.entityType, localID))
        }
        var version = options.isChecked && operation != .create ? try baseVersion(name) : nil
        // the user has not seen another writer's change, so this write must be a conflict. Version 1 always causes a
        // conflict, because it is below the version of that change. The stored version may already include that change.
        // A higher version might belong to a run of changes by this device. Neither would cause a conflict
        // (`docs/rules.md`, section "Conflicts").
        if version != nil, try isOverlapping || isHeld(name) { version = 1 }
        var row = row(operation.rawValue, entity, options)
        (row.key, row.localID, row.serverID) = (name.key.isEmpty ? nil : name.key, localID, serverID)
        row.endpoint = options.endpoint ?? entity.endpoint(of: operation)
        (row.payload, row.names, row.baseVersion) = (wire?.document, needed, version)
        try row.insert(db)
        if original != nil { try rows.refresh(entity, name.key) }
        return row.id
    }

    /// Returns the entity's document before this write, as the app's row shows it.
    private func shown(_ entity: EntitySync, _ name: EntityName) throws -> JSON {
        guard let document = try rows.document(entity, name.key) else {
            if try wasDeleted(name) { throw SluiceError.deleted(entityType: name.entityType, key: name.key) }
            throw SluiceError.unknownEntity(entityType: name.entityType, key: name.key)
        }
        return document
    }

    /// Completes the deletion of a row that is already deleted, or whose create was discarded. The server has no entity
    /// to delete, so no mutation is needed.
    ///
    /// - Returns: false if the row is not deleted yet.
    /// - Throws: ``SluiceError/unknownEntity(entityType:key:)`` for a row that was neither enqueued nor pulled.
    private func completeDeletion(_ entity: EntitySync, _ name: EntityName) throws -> Bool {
        if try identities.mapping(name)?.status == .failed {
            // without the create, later writes of the row can never take effect
            try Settling(map, db, now: now).discardWrites(of: name)
        }
        if try rows.document(entity, name.key) != nil { return false }
        guard try wasDeleted(name) else {
            throw SluiceError.unknownEntity(entityType: name.entityType, key: name.key)
        }
        try rows.refresh(entity, name.key)
        return true
    }

    /// Returns whether the server or a write of this phone has deleted the entity, or whether its create was discarded.
    ///
    /// The app may still show the row if a foreign key in the app's tables forbids the deletion.
    private func wasDeleted(_ name: EntityName) throws -> Bool {
        if try ServerSnapshot.of(name, db)?.isDeleted ?? false { return true }
        return try identities.mapping(name) != nil
    }

    private func makeMapping(_ entity: EntitySync, _ name: EntityName) throws {
        if entity.key.kind == .text, let uuid = UUID(text: name.key), uuid.wire != name.key {
            throw SluiceError.invalid(
                "the key of '\(entity.entityType)' is a UUID in upper case, '\(name.key)', and would be in lower "
                    + "case on other phones: use lower case, or map it with .uuid(\"\(entity.key.column)\", stored: "
                    + ".uppercaseText)"
            )
        }
        let id = entity.idSpace == .shared ? entity.key.json(of: name.key) : try clientID(entity, name.key)
        let mapping = IDMapping(
            entityType: name.entityType,
            key: name.key,
            clientID: entity.idSpace == .shared ? nil : id,
            serverID: entity.idSpace == .shared ? id : nil,
            status: entity.idSpace == .shared ? .resolved : .pending
        )
        if try identities.add(mapping) { return }
        if let known = try identities.mapping(name), known.status != .failed {
            guard try rows.document(entity, name.key) == nil else {
                throw SluiceError.invalid("'\(name.entityType)' \(name.key) already exists: enqueue an update of it")
            }
            // only in a shared id space may an entity be created again under the id of a deleted entity
            guard entity.idSpace == .shared else {
                throw SluiceError.invalid("'\(name.entityType)' \(name.key) was deleted; a new row needs a new key")
            }
        }
        try identities.save(mapping)
    }

    private func clientID(_ entity: EntitySync, _ key: String) throws -> JSON {
        guard entity.idSpace == .mapped else { return entity.key.json(of: key) }
        guard let uuid = UUID(text: key) else {
            throw SluiceError.invalid("the key of a new '\(entity.entityType)' must be a UUID: '\(key)' is not")
        }
        return .string(uuid.wire)
    }

    private func names(of entity: EntitySync, _ name: EntityName) throws -> (localID: JSON?, serverID: JSON?) {
        guard let mapping = try identities.mapping(name) else {
            throw SluiceError.unknownEntity(entityType: name.entityType, key: name.key)
        }
        return try mapping.isNamedByServer(db) ? (nil, mapping.serverID) : (mapping.clientID, nil)
    }

    /// Returns the version that the user saw (`docs/clients.md`, section "Which base_version"). This is the version in
    /// the last pull, or the version of a successful write that no pull has returned yet.
    private func baseVersion(_ name: EntityName) throws -> Int64? {
        let statement = try db.cachedStatement(
            sql: """
                SELECT max(version) FROM (
                    SELECT version FROM sluice_base WHERE entity_type = ?1 AND key = ?2
                    UNION ALL
                    SELECT version FROM sluice_mutations
                    WHERE entity_type = ?1 AND key = ?2 AND is_shown AND status = 'succeeded'
                )
                """
        )
        return try Int64.fetchOne(statement, arguments: [name.entityType, name.key])
    }

    /// Returns whether the row is held (table `sluice_held`). A held row shows an older state than the last received
    /// document, because the library could not write the document into the row.
    private func isHeld(_ name: EntityName) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_held WHERE entity_type = ? AND key = ?)"
        )
        return try Bool.fetchOne(statement, arguments: [name.entityType, name.key]) ?? false
    }

    // MARK: - Requests

    static func check(endpoint: String) throws {
        guard endpoint.hasPrefix("/"), !endpoint.hasPrefix("//") else {
            throw SluiceError.invalid("the endpoint '\(endpoint)' must begin with a single '/'")
        }
    }

    private func enqueue(_ request: Write.Request, _ options: Write.Options) throws -> UUID? {
        let entity = try map.entity(request.entityType)
        guard ["POST", "PATCH", "PUT", "DELETE"].contains(request.method) else {
            throw SluiceError.invalid(
                "the method '\(request.method)' is not allowed for a write: use POST, PATCH, PUT or DELETE"
            )
        }
        try Self.check(endpoint: request.endpoint)
        guard request.payload?.isDeeper(than: Self.depth) != true else {
            throw SluiceError.invalid("a payload can have \(Self.depth) nested levels; this one has more")
        }
        var row = row(request.method, entity, options)
        (row.endpoint, row.payload, row.isShown) = (request.endpoint, request.payload, false)
        if let value = request.key {
            guard let key = entity.key.text(of: value) else { throw SluiceError.invalid("\(value) is not a valid key") }
            row.key = key.isEmpty ? nil : key
            (row.localID, row.serverID) = try names(of: entity, EntityName(entity.entityType, key))
            if let id = row.localID { row.names.append(ClientName(entity.entityType, id)) }
        } else {
            row.localID = .string(UUID().wire)
        }
        try row.insert(db)
        return row.id
    }

    // MARK: - The row

    /// Returns an outbox row with the values that all writes of a type have in common.
    private func row(_ operation: String, _ entity: EntitySync, _ options: Write.Options) -> OutboxRow {
        var row = OutboxRow(
            sequence: sequence,
            id: UUID.timeOrdered(now),
            idempotencyKey: UUID.random(),
            operation: operation,
            entityType: entity.entityType,
            createdAt: identities.now
        )
        row.headers = options.headers
        row.dependencies = options.dependencies
        row.orderKey = options.orderKey
        row.conflictResolution = (options.conflictResolution ?? entity.conflictResolution)?.rawValue
        row.priority = options.priority ?? entity.priority
        row.maxAttempts = options.maxAttempts
        return row
    }
}
