import Foundation
import GRDB

/// Applies a page of the feed in one transaction: the bases and ids of entities, the app's rows, and the cursor.
struct PageApplication {
    private let map: EntityMap
    private let db: Database
    private let now: Date
    private let identities: Identities
    private let rows: Projection
    /// Whether any entity has edits. If not, the changes need not be checked for edits.
    private let hasEdits: Bool

    init(_ map: EntityMap, _ db: Database, now: Date) throws {
        self.map = map
        self.db = db
        self.now = now
        identities = Identities(map, db, now: now)
        rows = Projection(map, identities, db)
        hasEdits = try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations)") ?? false
    }

    /// - Parameter cursor: the cursor with which the page was requested. If the phone's cursor now differs, another
    ///   process has already applied the page, and nothing is applied.
    /// - Returns: whether the page was applied.
    func apply(_ page: ChangesPage, after cursor: String?) throws -> Bool {
        let feed = try Feed.read(db)
        guard feed.cursor == cursor else { return false }
        try findUnmapped(page)
        for change in page.changes { _ = try apply(change, feed.generation) }
        if !page.changes.isEmpty { try db.noteChangeOfBase() }
        try end(page, feed)
        return true
    }

    /// Applies a page without the app's rows, which are held. Use this method if the app's tables did not accept the
    /// rows of the page in one transaction.
    ///
    /// - Parameter reason: the reason why the rows are held.
    /// - Returns: the entities of the held rows. Write each row by ``writeRow(of:)``, in a separate transaction. Nil if
    ///   the phone's cursor is no longer the cursor with which the page was requested.
    func apply(_ page: ChangesPage, after cursor: String?, holdingRowsFor reason: String) throws -> [EntityName]? {
        let feed = try Feed.read(db)
        guard feed.cursor == cursor else { return nil }
        try findUnmapped(page)
        let names = try page.changes.compactMap { try apply($0, feed.generation, holdingRowFor: reason) }
        try db.noteChangeOfBase()
        try end(page, feed)
        return names
    }

    /// Writes the row of an applied change.
    func writeRow(of name: EntityName) throws {
        guard let entity = map[name.entityType] else { return }
        try rows.refresh(entity, name.key)
        if hasEdits, try ServerSnapshot.of(name, db)?.isDeleted == false { try retryEdits(of: name) }
    }

    private func end(_ page: ChangesPage, _ feed: Feed) throws {
        let isEnd = feed.isSnapshot && page.isUpToDate
        if isEnd {
            try sweep(feed.generation)
            try db.noteChangeOfBase()
        }
        if page.isUpToDate { try hideOutdated() }
        try db.execute(
            sql: """
                UPDATE sluice_device
                SET cursor = ?, is_snapshot = ?, snapshot_rows = snapshot_rows + ?, pulled_at = ?
                """,
            arguments: [page.next, feed.isSnapshot && !isEnd, feed.isSnapshot ? page.changes.count : 0, now.rfc3339]
        )
    }

    // MARK: - A change

    /// - Returns: the entity; nil if the app does not synchronize the entity.
    private func apply(
        _ change: JSON,
        _ generation: Int64,
        holdingRowFor reason: String? = nil
    ) throws -> EntityName? {
        guard let entity = change["entity_type"]?.string.flatMap({ map[$0] }), let id = change["id"] else { return nil }
        let name = EntityName(entity.entityType, try key(of: change, id, entity))
        // an entity that the user can no longer see is treated as deleted, even if it has pending edits
        let isRemoved = change["removed"]?.bool ?? false
        var base = ServerSnapshot(
            version: change["version"]?.int64,
            etag: change["etag"]?.string,
            isDeleted: isRemoved || change["deleted"]?.bool ?? false,
            document: nil
        )
        if change["unreadable"]?.array?.contains("document") ?? false {
            // if the gateway cannot decrypt the document, the phone keeps its own copy
            guard let known = try ServerSnapshot.of(name, db) else { return nil }
            base = known
        } else if let document = change["document"], !document.isNull {
            base.document = try identities.toLocal(document, entity)
        }
        // other edits may build on the last document, so this document includes edits that took effect and were not
        // pulled yet
        if base.isDeleted, hasEdits { base.document = try rows.document(entity, name.key, of: .succeeded) }
        let hasEdits = try hasEdits && release(name, upTo: isRemoved ? .max : base.version)
        if base.isDeleted, try !isInOutbox(name) {
            try ServerSnapshot.delete(name, db)
        } else {
            try base.save(name, generation: generation, db)
        }
        if let reason {
            try rows.hold(name, reason)
            return name
        }
        // a tombstone keeps the last received document, because edits may still build on it
        try rows.refresh(entity, name, base: hasEdits ? try ServerSnapshot.of(name, db) : base, hasEdits: hasEdits)
        if hasEdits, !base.isDeleted { try retryEdits(of: name) }
        return name
    }

    /// Retries edits that the built-in store refused because it did not have the entity. A restored gateway had lost
    /// the entity, and another phone has now sent the create again.
    private func retryEdits(of name: EntityName) throws {
        let ids = try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations
                WHERE entity_type = ? AND key = ? AND status = 'failed' AND endpoint IS NULL
                    AND json_extract(response, '$.status') = 404 AND \(WriteStatus.needsDecision)
                ORDER BY sequence_number
                """,
            arguments: [name.entityType, name.key]
        )
        for id in ids { try Settling(map, db, now: now).retry(UUID(wire: id), payload: nil, RetryOptions()) }
    }

    /// Looks up the ids of a page's entities. Types with local ids of the device are looked up one by one.
    private func findUnmapped(_ page: ChangesPage) throws {
        try identities.findUnmapped(
            page.changes.flatMap { change -> [(entity: EntitySync, id: JSON)] in
                guard let entity = change["entity_type"]?.string.flatMap({ map[$0] }), entity.idSpace != .device else {
                    return []
                }
                return [change["id"], change["client_id"]].compactMap { $0 }.filter { !$0.isNull }.map { (entity, $0) }
            }
        )
    }

    private func key(of change: JSON, _ id: JSON, _ entity: EntitySync) throws -> String {
        guard entity.idSpace == .device else {
            let clientID = change["client_id"].flatMap { $0.isNull ? nil : $0 }
            return try identities.key(of: entity, serverID: id, clientID: clientID)
        }
        guard let number = change["local_id"]?.int64 else {
            throw SluiceError.invalid("a change of '\(entity.entityType)' without the device's local id")
        }
        return try identities.key(of: entity, serverID: id, number: number)
    }

    /// Hides the edits that the base already contains.
    ///
    /// - Returns: whether the entity still has edits on top of the base.
    private func release(_ name: EntityName, upTo version: Int64?) throws -> Bool {
        let hiding = try db.cachedStatement(
            sql: """
                UPDATE sluice_mutations SET is_shown = 0
                WHERE entity_type = ? AND key = ? AND is_shown AND status = 'succeeded' AND version <= ?
                """
        )
        try hiding.execute(arguments: [name.entityType, name.key, version])
        let rest = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations WHERE entity_type = ? AND key = ? AND is_shown)"
        )
        return try Bool.fetchOne(rest, arguments: [name.entityType, name.key]) ?? false
    }

    /// Returns whether an entity has writes in the outbox. If so, its tombstone must be kept, because a late response
    /// may contain an older state of the entity.
    private func isInOutbox(_ name: EntityName) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations WHERE entity_type = ? AND key = ?)"
        )
        return try Bool.fetchOne(statement, arguments: [name.entityType, name.key]) ?? false
    }

    // MARK: - The end of a pull from the beginning

    /// Removes the entities that the pull did not contain, because the server has deleted them (`docs/clients.md`,
    /// after a 410). Open edits of these entities continue to wait for their outcomes.
    private func sweep(_ generation: Int64) throws {
        var names = try names(
            """
            SELECT m.entity_type, m.key FROM sluice_mutations m
            WHERE m.is_shown AND \(Self.isOutdated)
            """,
            generation
        )
        let documents = try documents(of: names)
        // edits that took effect before the pull began would be in the pull, if their entities still existed
        try db.execute(
            sql: "UPDATE sluice_mutations AS m SET is_shown = 0 WHERE m.is_shown AND \(Self.isOutdated)",
            arguments: [generation]
        )
        names += try self.names("SELECT b.entity_type, b.key FROM sluice_base b WHERE b.generation < ?", generation)
        for name in Set(names) {
            guard let entity = map[name.entityType] else { continue }
            // open edits still build on the last document, as they do on a tombstone's document
            if try isInOutbox(name) {
                let document = documents[name]
                if var base = try ServerSnapshot.of(name, db) ?? document.map({ ServerSnapshot(deleted: $0) }) {
                    base.isDeleted = true
                    base.document = document ?? base.document
                    try base.save(name, generation: generation, db)
                }
            } else {
                try ServerSnapshot.delete(name, db)
            }
            try rows.refresh(entity, name.key)
        }
    }

    /// Hides edits that took effect before a pull, if the pull does not contain their effects.
    private func hideOutdated() throws {
        let condition = "is_shown AND status = 'succeeded' AND is_outdated"
        let names = try Row.fetchAll(
            db,
            sql: "SELECT DISTINCT entity_type, key FROM sluice_mutations WHERE \(condition)"
        )
        .map { EntityName($0[0], $0[1]) }
        if names.isEmpty { return }
        for (name, document) in try documents(of: names) where try ServerSnapshot.of(name, db) == nil {
            try ServerSnapshot(deleted: document).save(name, db)
        }
        try db.execute(sql: "UPDATE sluice_mutations SET is_shown = 0 WHERE \(condition)")
        try rows.refresh(names)
    }

    /// Returns the documents of entities, with the edits that took effect. Call this method before these edits are
    /// hidden: if no pull has returned an entity, only these edits contain its document, on which open edits still
    /// build.
    private func documents(of names: [EntityName]) throws -> [EntityName: JSON] {
        try names.reduce(into: [:]) { documents, name in
            guard let entity = map[name.entityType] else { return }
            documents[name] = try rows.document(entity, name.key, of: .succeeded)
        }
    }

    private static let isOutdated = """
        m.status = 'succeeded' AND m.is_outdated
            AND NOT EXISTS (
                SELECT 1 FROM sluice_base b
                WHERE b.entity_type = m.entity_type AND b.key = m.key AND b.generation >= ?)
        """

    private func names(_ sql: String, _ generation: Int64) throws -> [EntityName] {
        try Row.fetchAll(db, sql: sql, arguments: [generation]).map { EntityName($0[0], $0[1]) }
    }
}
