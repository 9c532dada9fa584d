import Foundation
import GRDB

/// Translates between the phone's keys and the gateway's ids, within one transaction.
///
/// Look-ups are cached. For example, a page with a thousand visits to twenty customers requires only twenty look-ups.
final class Identities {
    private let map: EntityMap
    private let db: Database
    /// The time of writes in the format of the tables (RFC 3339).
    let now: String
    /// If true, nothing is stored: an entity to which a document refers for the first time gets no stored key.
    private let isReading: Bool
    private var known: [EntityName: IDMapping] = [:]
    private var keys: [ServerName: String] = [:]
    /// The ids in a page of the feed that have no mapping (``findUnmapped(_:)``).
    private var unmapped: Set<ClientName> = []
    /// Whether the gateway's local ids for rows may differ from the rows' keys. Nil until it is read from the database.
    private var areOtherNumbers: Bool?

    private struct ServerName: Hashable {
        let entityType: String
        let id: String

        /// Compares bytes, as the tables do.
        static func == (left: ServerName, right: ServerName) -> Bool {
            left.id == right.id && left.entityType == right.entityType
        }

        func hash(into hasher: inout Hasher) { id.hashBytes(into: &hasher) }
    }

    init(_ map: EntityMap, _ db: Database, now: Date, isReading: Bool = false) {
        self.map = map
        self.isReading = isReading
        self.db = db
        self.now = now.rfc3339
    }

    // MARK: - To the gateway

    /// Returns the id of a row in a push.
    ///
    /// - Throws: ``SluiceError/unknownEntity(entityType:key:)`` for a row that was neither enqueued nor pulled, and
    ///   ``SluiceError/deleted(entityType:key:)`` for a row whose create was discarded.
    func wireID(_ name: EntityName) throws -> JSON {
        guard let mapping = try mapping(name), let id = try mapping.wireID(db) else {
            throw SluiceError.unknownEntity(entityType: name.entityType, key: name.key)
        }
        guard mapping.status != .failed else {
            throw SluiceError.deleted(entityType: name.entityType, key: name.key)
        }
        return id
    }

    func mapping(_ name: EntityName) throws -> IDMapping? {
        if let found = known[name] { return found }
        let found = try IDMapping.of(name.entityType, key: name.key, db)
        known[name] = found
        return found
    }

    /// Translates a document of the phone to the gateway's ids. Also returns the client ids in the document that have
    /// no server id yet.
    func toWire(_ document: JSON, _ entity: EntitySync) throws -> (document: JSON, pending: [ClientName]) {
        var pending: [ClientName] = []
        let wire = try entity.replacingIDs(in: document) { type, id in
            guard let key = try map.entity(type).key.text(of: id) else {
                throw SluiceError.invalid("\(id) is not a key of '\(type)'")
            }
            let name = EntityName(type, key)
            let wireID = try wireID(name)
            if try mapping(name)?.status != .resolved { pending.append(ClientName(type, wireID)) }
            return wireID
        }
        return (wire, pending)
    }

    /// Returns those client ids in a document for the gateway that have no server id yet.
    func pendingIDs(in document: JSON, _ entity: EntitySync) throws -> [ClientName] {
        var pending: [ClientName] = []
        _ = try entity.replacingIDs(in: document) { type, id in
            if try IDMapping.of(type, clientID: id, db)?.status == .pending { pending.append(ClientName(type, id)) }
            return id
        }
        return pending
    }

    // MARK: - From the gateway

    /// The kind of ids that a document contains for entities of types with local ids. Pulls and pushes contain the
    /// device's local ids. The gateway's document in a conflict contains the server's ids.
    enum Numbers { case device, server }

    /// Translates a document of the gateway to the phone's keys.
    ///
    /// If an entity is new on the phone, it gets a key. There is one exception: in a document with the server's ids,
    /// the id of an entity of a device type becomes null if the phone has no mapping for the id.
    func toLocal(_ document: JSON, _ entity: EntitySync, numbersAre numbers: Numbers = .device) throws -> JSON {
        try entity.replacingIDs(in: document) { type, id in
            let target = try map.entity(type)
            guard target.idSpace == .device else {
                return target.key.json(of: try key(of: target, serverID: id))
            }
            if numbers == .device, id.int64 != nil { return try key(of: target, number: id) }
            let known = try IDMapping.of(type, serverID: id, db).map { target.key.json(of: $0.key) }
            return known ?? (numbers == .device ? id : .null)
        }
    }

    /// Returns the key of the entity that has this local id of the device. In most rows, the key is the local id.
    private func key(of entity: EntitySync, number: JSON) throws -> JSON {
        guard try areOthers() else { return number }
        if let known = try IDMapping.of(entity.entityType, clientID: number, db) {
            return entity.key.json(of: known.key)
        }
        let key = number.text
        if !isReading, try IDMapping.of(entity.entityType, key: key, db) == nil {
            // the phone may already have the entity under another key; if so, this is detected when the entity's own
            // change arrives
            try save(
                IDMapping(entityType: entity.entityType, key: key, clientID: number, serverID: nil, status: .pending)
            )
        }
        return number
    }

    private func areOthers() throws -> Bool {
        if let areOtherNumbers { return areOtherNumbers }
        let areOthers = try DeviceNumbers.areOthers(db)
        areOtherNumbers = areOthers
        return areOthers
    }

    /// Returns the key of an entity for which a page contains the server id and the device's local id.
    func key(of entity: EntitySync, serverID: JSON, number: Int64) throws -> String {
        let (type, clientID) = (entity.entityType, JSON.integer(number))
        var own = try IDMapping.of(type, key: String(number), db)
        if let unsent = own, try unsent.isUnsent(db) {
            // another phone with the same device id has used the local id for another entity, so this phone's row needs
            // a new local id
            try DeviceNumbers(map, db).renumber(EntityName(type, unsent.key))
            forget()
            own = nil
        }
        if let own, own.serverID?.id == serverID.id, own.clientID?.id == clientID.id { return own.key }
        if let known = try IDMapping.of(type, serverID: serverID, db) {
            return try renumber(known, to: clientID, entity)
        }
        if let known = try IDMapping.of(type, clientID: clientID, db) {
            try resolve(known, serverID: serverID)
            return known.key
        }
        let key = try own == nil ? number : DeviceNumbers(map, db).next()[type] ?? number
        if key != number { try noteOtherNumbers() }
        try save(
            IDMapping(entityType: type, key: String(key), clientID: clientID, serverID: serverID, status: .resolved)
        )
        return String(key)
    }

    /// Records the device's local id for an entity whose key on the phone differs from this local id.
    private func renumber(_ known: IDMapping, to number: JSON, _ entity: EntitySync) throws -> String {
        let type = entity.entityType
        if let other = try IDMapping.of(type, clientID: number, db), other.key != known.key {
            if try other.isWithoutData(db) {
                // rows referred to the entity by its local id, before the entity's own change arrived
                guard try KeyRewriter(map, db).merge(other, into: known, entity) == known.key else { return known.key }
                forget()
            } else if other.status == .pending {
                return try unite(known, with: other, entity) ? other.key : known.key
            } else {
                // a restored gateway has given the local id to another entity
                try save(other.numbered(nil))
            }
        }
        if let old = known.clientID, old.id != number.id {
            try KeyRewriter(map, db).renameQueued(entity, old, to: number)
        }
        try save(known.numbered(number))
        try noteOtherNumbers()
        return known.key
    }

    /// Merges two rows of one entity: a row that the phone created, and a row that a pull added before the response to
    /// the create arrived. The row that the phone created keeps its key.
    ///
    /// - Returns: false if one of the app's constraints prevents the merge.
    func unite(_ shown: IDMapping, with own: IDMapping, _ entity: EntitySync) throws -> Bool {
        guard try KeyRewriter(map, db).merge(shown, into: own, entity) == own.key else { return false }
        forget()
        let united = IDMapping(
            entityType: entity.entityType,
            key: own.key,
            clientID: own.clientID,
            serverID: shown.serverID,
            status: .resolved
        )
        try save(united)
        if let number = shown.clientID {
            if let old = own.clientID { try KeyRewriter(map, db).renameQueued(entity, old, to: number) }
            try save(united.numbered(number))
        } else {
            try forgetNumber(own.clientID, of: EntityName(entity.entityType, own.key))
        }
        try noteOtherNumbers()
        return true
    }

    /// Makes the phone use the server id, not its own local id, for an entity that the phone has created. This is
    /// necessary if another device, such as one with a copy of this database, has sent the create. The gateway then has
    /// no local id of this device for the entity.
    func forgetNumber(_ number: JSON?, of name: EntityName) throws {
        guard let number, let known = try mapping(name), known.clientID?.id == number.id, known.serverID?.string != nil
        else { return }
        try NumberReplacement(map, db).replaceInQueued(naming: ClientName(name.entityType, number))
        try save(known.numbered(nil))
        try noteOtherNumbers()
    }

    private func noteOtherNumbers() throws {
        try DeviceNumbers.noteOthers(db)
        areOtherNumbers = true
    }

    /// Looks up many ids of the gateway by one statement. Ids that are new on the phone, as in a pull from the
    /// beginning, then need no separate look-up.
    func findUnmapped(_ ids: [(entity: EntitySync, id: JSON)]) throws {
        for (type, ids) in Dictionary(grouping: ids, by: \.entity.entityType) {
            let rows = ids.map { entity, id in
                JSON.array([
                    .string(id.id), .string(id.string ?? id.text), entity.key.text(of: id).map(JSON.string) ?? .null,
                ])
            }
            for id in try IDMapping.unmapped(type, JSON.array(rows).text, db) {
                unmapped.insert(ClientName(type, id: id))
            }
        }
    }

    private func isUnmapped(_ entityType: String, _ id: JSON) -> Bool {
        !unmapped.isEmpty && unmapped.contains(ClientName(entityType, id))
    }

    /// Removes the ids of a new mapping from the ids without a mapping.
    private func noteMapped(_ mapping: IDMapping) {
        if unmapped.isEmpty { return }
        for id in [.string(mapping.key), mapping.clientID, mapping.serverID].compactMap({ $0 }) {
            unmapped.remove(ClientName(mapping.entityType, id))
        }
        unmapped.remove(ClientName(mapping.entityType, id: mapping.key))
    }

    /// Returns the key of the entity with this id at the gateway. The id may be the user's own client id.
    func key(of entity: EntitySync, serverID: JSON, clientID: JSON? = nil) throws -> String {
        let name = ServerName(entityType: entity.entityType, id: serverID.id)
        if let key = keys[name] { return key }
        let key = try findKey(of: entity, serverID: serverID, clientID: clientID)
        keys[name] = key
        return key
    }

    private func findKey(of entity: EntitySync, serverID: JSON, clientID: JSON?) throws -> String {
        let type = entity.entityType
        if isUnmapped(type, serverID), clientID.map({ isUnmapped(type, $0) }) ?? true {
            return try addKey(of: entity, serverID: serverID, clientID: clientID)
        }
        if let mapping = try IDMapping.of(type, serverID: serverID, db) {
            guard !isReading, let clientID, mapping.clientID == nil,
                let own = try IDMapping.of(type, clientID: clientID, db), own.status == .pending,
                try replaceSecondKey(mapping, with: own, entity)
            else { return mapping.key }
            try resolve(own, serverID: serverID)
            return own.key
        }
        for id in [clientID, serverID].compactMap({ $0 }) {
            guard let mapping = try IDMapping.of(type, clientID: id, db) else { continue }
            if id == clientID, !isReading { try resolve(mapping, serverID: serverID) }
            return mapping.key
        }
        return try addKey(of: entity, serverID: serverID, clientID: clientID)
    }

    private func addKey(of entity: EntitySync, serverID: JSON, clientID: JSON?) throws -> String {
        let key = try newKey(of: entity, serverID: serverID, clientID: clientID)
        if isReading { return key }
        try save(
            IDMapping(
                entityType: entity.entityType,
                key: key,
                clientID: clientID,
                serverID: serverID,
                status: .resolved
            )
        )
        return key
    }

    /// Returns a key for an entity that is new on the phone. With stable keys, the key is the user's own client id if
    /// there is one. In all other cases, it is the server id. If the column cannot hold the id, or the id is already in
    /// use as a key, the key is a new UUID.
    private func newKey(of entity: EntitySync, serverID: JSON, clientID: JSON?) throws -> String {
        let own = entity.keys == .stable ? [clientID, serverID] : [serverID]
        for id in own.compactMap({ $0 }) {
            guard let text = entity.key.text(of: id) ?? (entity.key.kind == .text ? id.int64.map { String($0) } : nil)
            else { continue }
            // a text key may be any text of the app; a text that is already in use belongs to another entity
            if isUnmapped(entity.entityType, id) { return text }
            if try IDMapping.of(entity.entityType, key: text, db) == nil { return text }
        }
        return UUID.random().wire
    }

    /// Keeps the key of a row that the phone created, and replaces a second key of the same entity.
    ///
    /// The entity has a second key if another row referred to the entity before the phone received the mapping. The
    /// second key is removed, and rows that refer to the second key get the phone's key.
    ///
    /// - Returns: false if the library has data under the second key, and not only references to this key.
    func replaceSecondKey(_ name: IDMapping, with own: IDMapping, _ entity: EntitySync) throws -> Bool {
        guard try name.isNameOnly(db), try KeyRewriter(map, db).merge(name, into: own, entity) == own.key else {
            return false
        }
        forget()
        return true
    }

    /// Clears the cache, because keys have changed.
    func forget() {
        known = [:]
        keys = [:]
        unmapped = []
    }

    /// Stores the server id of a row that the phone created.
    func resolve(_ mapping: IDMapping, serverID: JSON) throws {
        guard mapping.serverID?.id != serverID.id || mapping.status != .resolved else { return }
        try save(
            IDMapping(
                entityType: mapping.entityType,
                key: mapping.key,
                clientID: mapping.clientID,
                serverID: serverID,
                status: .resolved
            )
        )
    }

    /// Records that the create of a row was discarded. A later create can use the same client id again.
    func fail(_ mapping: IDMapping) throws {
        guard mapping.status == .pending else { return }
        try save(
            IDMapping(
                entityType: mapping.entityType,
                key: mapping.key,
                clientID: mapping.clientID,
                serverID: nil,
                status: .failed
            )
        )
    }

    /// - Returns: false if the key already has a mapping. In that case, nothing is written.
    func add(_ mapping: IDMapping) throws -> Bool {
        guard try mapping.insert(db, at: now) else { return false }
        known[EntityName(mapping.entityType, mapping.key)] = mapping
        noteMapped(mapping)
        return true
    }

    /// Removes a mapping that ``add(_:)`` has written.
    func forget(_ name: EntityName) throws {
        known[name] = nil
        try db.execute(
            sql: """
                DELETE FROM sluice_id_mappings WHERE entity_type = ? AND key = ? AND NOT EXISTS (
                    SELECT 1 FROM sluice_mutations m WHERE m.entity_type = ?1 AND m.key = ?2)
                """,
            arguments: [name.entityType, name.key]
        )
    }

    func save(_ mapping: IDMapping) throws {
        try mapping.save(db, at: now)
        noteMapped(mapping)
        known[EntityName(mapping.entityType, mapping.key)] = mapping
    }
}

/// A client id with its entity type, as one text.
struct ClientName: Sendable, Hashable {
    let text: String

    /// Compares bytes, as the tables do.
    static func == (left: ClientName, right: ClientName) -> Bool { left.text == right.text }

    func hash(into hasher: inout Hasher) { text.hashBytes(into: &hasher) }

    init(_ entityType: String, _ clientID: JSON) { self.init(entityType, id: clientID.id) }

    /// - Parameter id: the id in the format of the library's tables.
    init(_ entityType: String, id: String) { text = "\(entityType) \(id)" }

    init(text: String) { self.text = text }

    /// The entity type, and the id in the format of the tables. A type's name has no space.
    var parts: (entityType: String, id: String) {
        let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
    }
}

/// An entity on the phone, identified by its type and its key.
struct EntityName: Sendable, Hashable {
    let entityType: String
    /// The text of the entity's key.
    let key: String

    init(_ entityType: String, _ key: String) {
        self.entityType = entityType
        self.key = key
    }

    /// Compares bytes, as the tables do.
    static func == (left: EntityName, right: EntityName) -> Bool {
        left.key == right.key && left.entityType == right.entityType
    }

    func hash(into hasher: inout Hasher) { key.hashBytes(into: &hasher) }
}

extension String {
    /// Hashes the UTF-8 bytes, for types whose equality compares bytes.
    func hashBytes(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xff as UInt8)
    }
}
