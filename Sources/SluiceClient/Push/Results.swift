import Foundation
import GRDB

/// Stores the gateway's states of mutations within one transaction: in the outbox, the ids, the bases and the app's
/// rows.
final class Results {
    private let map: EntityMap
    private let db: Database
    private let now: Date
    private let identities: Identities
    private let rows: Projection

    init(_ map: EntityMap, _ identities: Identities, _ rows: Projection, _ db: Database, now: Date) {
        self.map = map
        self.db = db
        self.now = now
        self.identities = identities
        self.rows = rows
    }

    /// - Returns: false if the outbox does not contain the mutation.
    @discardableResult
    func apply(_ result: MutationResult) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: """
                SELECT sequence_number, operation, entity_type, key, status, is_shown, endpoint IS NULL AS is_built_in,
                    coalesce(edited_payload, payload) AS payload
                FROM sluice_mutations WHERE id = ?
                """
        )
        guard let row = try Row.fetchOne(statement, arguments: [result.id.wire]) else { return false }
        let before: String = row["status"]
        // an older response may arrive after an event with a later state, and is then ignored
        if ["succeeded", "discarded"].contains(before), !result.status.isFinal { return true }
        try write(result)
        guard let entity = map[row["entity_type"]], let key: String = row["key"] else { return true }
        let operation: String = row["operation"]
        let name = EntityName(
            entity.entityType,
            try noteID(result, entity, key, isCreate: operation == RowOperation.create.rawValue)
        )
        let isShown: Bool = row["is_shown"]
        switch result.status {
        case .succeeded:
            guard isShown else { break }
            let edit = try edit(row, entity)
            try supersede(by: edit, row["sequence_number"], name)
            // The built-in store returns a version with every success, except for a deletion of an entity that it did
            // not have. A phone may have created the entity again since then, after a restore. So the next pull decides
            // what is shown.
            if result.version == nil, edit.operation == .delete, row["is_built_in"] { break }
            try succeed(result, edit, entity, name)
        case .pending, .blocked, .inFlight, .failed, .conflict, .rejected:
            if !isShown, try reveal(result.id) { try rows.refresh(entity, name.key) }
        case .discarded:
            guard isShown || result.current != nil else { break }
            try discard(result, entity, name)
            if operation == RowOperation.delete.rawValue { try rows.restoreChildren(of: name) }
        }
        return true
    }

    /// Shows an edit again if a decision had hidden the edit, but the gateway did not follow the decision.
    ///
    /// - Returns: false if the mutation is not an edit of a row, or if its discard is still to be sent.
    private func reveal(_ id: UUID) throws -> Bool {
        try db.execute(
            sql: """
                UPDATE sluice_mutations SET is_shown = 1
                WHERE id = ?1 AND \(RowOperation.isOfRow)
                    AND NOT EXISTS (SELECT 1 FROM sluice_intents WHERE mutation_id = ?1)
                    AND NOT (\(WriteStatus.isStopped) AND EXISTS (
                        SELECT 1 FROM sluice_mutations l
                        WHERE l.entity_type = sluice_mutations.entity_type AND l.key = sluice_mutations.key
                            AND l.sequence_number > sluice_mutations.sequence_number AND l.status = 'succeeded'))
                """,
            arguments: [id.wire]
        )
        return db.changesCount > 0
    }

    /// Lets a later write replace a stopped write of the same entity. The later write may take effect while the stopped
    /// write waits for a decision. If both writes contain the same member, the later write's value is shown.
    private func supersede(by edit: Edit, _ sequence: Int64, _ name: EntityName) throws {
        let earlier = try db.cachedStatement(
            sql: """
                SELECT id, operation, coalesce(edited_payload, payload) AS payload, overtaken FROM sluice_mutations
                WHERE entity_type = ? AND key = ? AND is_shown AND sequence_number < ? AND \(WriteStatus.isStopped)
                """
        )
        for row in try Row.fetchAll(earlier, arguments: [name.entityType, name.key, sequence]) {
            let operation = RowOperation(rawValue: row["operation"]) ?? .update
            let other = Edit(operation: operation, payload: try row.json("payload"))
            guard let shared = other.sharedMembers(with: edit) else {
                try hide(UUID(wire: row["id"]))
                continue
            }
            if shared.isEmpty { continue }
            let known = Set((try row.json("overtaken")?.array ?? []).compactMap(\.string))
            let overtaken = JSON.array(known.union(shared).sorted().map(JSON.string))
            try db.execute(
                sql: "UPDATE sluice_mutations SET overtaken = ? WHERE id = ?",
                arguments: [overtaken.text, row["id"] as String]
            )
        }
    }

    private func edit(_ row: Row, _ entity: EntitySync) throws -> Edit {
        let payload = try row.json("payload")
        return Edit(
            operation: RowOperation(rawValue: row["operation"]) ?? .update,
            payload: try payload.map { try identities.toLocal($0, entity) }
        )
    }

    private func write(_ result: MutationResult) throws {
        let statement = try db.cachedStatement(
            sql: """
                UPDATE sluice_mutations
                SET status = ?, result_server_id = ?, version = ?, etag = ?, blocked_by = ?, resolution = ?, response = ?,
                    error = ?, warnings = ?, revision = ?, attempt_count = ?, next_retry_at = ?, settled_at = ?,
                    settle_error = CASE WHEN ? THEN NULL ELSE settle_error END
                WHERE id = ?
                """
        )
        try statement.execute(arguments: [
            result.status.rawValue, result.serverID?.text, result.version, result.etag,
            result.blockedBy.isEmpty ? nil : JSON.array(result.blockedBy).text, result.resolution,
            result.response?.text, result.error?.text, result.warnings?.text, result.revision, result.attemptCount,
            result.nextRetryAt, result.status.isOpen ? nil : now.rfc3339, result.status.isFinal, result.id.wire,
        ])
    }

    // MARK: - Ids

    /// Stores a mapping in the gateway's format.
    func note(_ mapping: JSON) throws {
        guard let entity = mapping["entity_type"]?.string.flatMap({ map[$0] }), let clientID = mapping["client_id"],
            let serverID = mapping["server_id"], !serverID.isNull, mapping["status"]?.string == "resolved",
            let known = try IDMapping.of(entity.entityType, clientID: clientID, db)
        else { return }
        _ = try resolve(known, entity, serverID)
    }

    /// - Returns: the entity's new key.
    private func noteID(_ result: MutationResult, _ entity: EntitySync, _ key: String, isCreate: Bool) throws -> String
    {
        let name = EntityName(entity.entityType, key)
        guard isCreate, entity.idSpace != .shared, let mapping = try identities.mapping(name) else { return key }
        if let serverID = result.serverID {
            let resolved = try resolve(mapping, entity, serverID)
            if entity.idSpace == .device, mapping.status == .pending, result.isReplay {
                try identities.forgetNumber(mapping.clientID, of: EntityName(entity.entityType, resolved))
            }
            return resolved
        }
        if result.status == .discarded { try identities.fail(mapping) }
        return key
    }

    private func resolve(_ mapping: IDMapping, _ entity: EntitySync, _ serverID: JSON) throws -> String {
        let isRewritten = entity.keys == .rewritten && entity.idSpace == .mapped
        if mapping.status == .resolved, mapping.serverID?.id == serverID.id, !isRewritten { return mapping.key }
        let rewriter = KeyRewriter(map, db)
        // the created entity was pulled before this result arrived, so two keys identify the entity
        if let other = try IDMapping.of(entity.entityType, serverID: serverID, db), other.key != mapping.key {
            if entity.idSpace == .device {
                guard try identities.unite(other, with: mapping, entity) else { return mapping.key }
                try rows.refresh(entity, mapping.key)
                return mapping.key
            }
            guard try identities.replaceSecondKey(other, with: mapping, entity) else {
                let key = try rewriter.merge(mapping, into: other, entity)
                identities.forget()
                try rows.refresh(entity, key)
                return key
            }
        }
        try identities.resolve(mapping, serverID: serverID)
        guard isRewritten else { return mapping.key }
        return try rewriter.rewrite(mapping, entity, to: serverID)
    }

    // MARK: - The shown rows

    /// Hides an edit that took effect, as soon as the base contains the edit. If the feed does not report the edit, the
    /// edited document becomes the base.
    private func succeed(_ result: MutationResult, _ edit: Edit, _ entity: EntitySync, _ name: EntityName) throws {
        let base = try ServerSnapshot.of(name, db)
        if let version = result.version {
            guard let known = base?.version, known >= version else { return }
        } else {
            let document = Edit.shown([edit], on: base)
            try ServerSnapshot(
                version: base?.version,
                etag: result.etag ?? base?.etag,
                isDeleted: document == nil,
                document: document ?? base?.document
            ).save(name, db)
        }
        try hide(result.id)
        try rows.refresh(entity, name.key)
    }

    /// Removes a discarded write, and shows the server's entity instead (`docs/clients.md`, rolling back). The result
    /// contains this entity, because the feed does not return it again.
    private func discard(_ result: MutationResult, _ entity: EntitySync, _ name: EntityName) throws {
        if let current = result.current {
            let known = try ServerSnapshot.of(name, db)?.version ?? 0
            let version = current["version"]?.int64
            if version ?? .max > known {
                try ServerSnapshot(
                    version: version,
                    etag: current["etag"]?.string,
                    isDeleted: current["deleted"]?.bool ?? false,
                    document: try current["document"].flatMap {
                        $0.isNull ? nil : try identities.toLocal($0, entity, numbersAre: .server)
                    }
                ).save(name, db)
            }
        }
        try hide(result.id)
        try rows.refresh(entity, name.key)
    }

    private func hide(_ id: UUID) throws {
        let statement = try db.cachedStatement(sql: "UPDATE sluice_mutations SET is_shown = 0 WHERE id = ?")
        try statement.execute(arguments: [id.wire])
    }
}
