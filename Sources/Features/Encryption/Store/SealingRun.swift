package import FoundationEssentials
package import Postgres
package import SyncModel
package import SyncStore

/// Seals one organization's rows.
///
/// The run first seals the settings. Then it decrypts all other rows without locks, before it creates any user's key.
/// This step detects values that cannot be decrypted, and users whose keys are missing. Finally, the run seals the rows
/// that require it (the due rows), a few in each transaction.
package struct SealingRun {
    /// The number of rows that one statement reads to find the rows that require sealing.
    package static let scan = SealedLaneRows.scan
    /// The number of rows that one transaction writes, or that one statement reads to decrypt them.
    package static let batch = 20

    let tables: [StoredTable]
    package let pool: Pool
    package var userKeys: UserKeys
    package let organization: UUID
    package let seal: Seal
    package let number: Int32
    package let progress: @Sendable (SealedRows) -> Void
    package var rows = SealedRows()

    private enum Step {
        /// Decrypts every row, and seals no row.
        case inspect
        /// Seals the rows that are due.
        case write
    }

    package mutating func sealAll() async throws {
        for settings in tables.compactMap(SealedSettings.init) { try await seal(settings) }
        try await walk(.inspect)
        try await walk(.write)
    }

    private mutating func walk(_ step: Step) async throws {
        let ofLanes = tables.compactMap(SealedTable.init)
        // starts at the least UUID, because clients choose ids and a user can have this UUID
        var next: UUID? = UUID.least
        while let start = next, let user = try await user(from: start) {
            let lane = LaneKey(organization: organization, user: user)
            for table in ofLanes { try await pass(SealedLaneRows(table: table, lane: lane), step) }
            if step == .write { try await clearMappings(lane) }
            next = user.successor
        }
        for case .documents(let table) in tables.compactMap(\.sealing) {
            switch table {
            case .entities: try await pass(SealedEntities(organization: organization), step)
            case .parkedEvents: try await pass(SealedParkedEvents(organization: organization), step)
            }
        }
    }

    private mutating func pass<Kind: SealedKind>(_ kind: Kind, _ step: Step) async throws {
        var next: Kind.Key? = kind.first
        while let start = next {
            var parameters = kind.place(start)
            parameters.add(Self.scan)
            kind.add(number, seal, to: &parameters)
            let found = try await pool.run([Query(kind.page, parameters)])[0]
            let all = try found.read { (key: try kind.key(&$0), isDue: try $0.read("is_due", as: Bool.self)) }
            guard let last = all.last?.key else { return }
            let due = all.filter(\.isDue).map(\.key)
            switch step {
            case .inspect:
                try await inBatches(due) { try await $0.inspect(at: $1, of: kind, areDue: true) }
                try await inBatches(all.filter { !$0.isDue }.map(\.key)) {
                    try await $0.inspect(at: $1, of: kind, areDue: false)
                }
                rows.examined += all.count
            case .write:
                try await inBatches(due) { try await $0.write($1, of: kind) }
                rows.sealed += due.count
            }
            progress(rows)
            next = kind.next(after: last)
        }
    }

    private mutating func inBatches<Key>(
        _ keys: [Key],
        _ body: (inout SealingRun, [Key]) async throws -> Void
    ) async throws {
        for start in stride(from: 0, to: keys.count, by: Self.batch) {
            try await body(&self, Array(keys[start..<min(keys.count, start + Self.batch)]))
        }
    }

    /// Decrypts rows. If a value of a due row cannot be decrypted, `write` records this value later.
    private mutating func inspect<Kind: SealedKind>(at keys: [Kind.Key], of kind: Kind, areDue: Bool) async throws {
        let seal = seal
        let closed = try await userKeys.fetchingMissingKeys {
            let found = try await pool.runByIndex(kind.find(keys))
            var renewal = Renewal(seal: seal, seals: false)
            _ = try found.readSealed { try kind.renewed(&$0, &renewal) }
            return renewal.closed
        }
        // a user whose rows need a missing key gets no new key, because the missing key may still be restored, and a
        // user has only one key
        for case .keys(_, let user?) in closed.map(\.cover) {
            userKeys.withoutKey.insert(LaneKey(organization: organization, user: user))
        }
        if !areDue { rows.leave(closed) }
    }

    /// Seals rows again under their locks. Values that cannot be decrypted stay unchanged, and are recorded.
    private mutating func write<Kind: SealedKind>(_ keys: [Kind.Key], of kind: Kind) async throws {
        let seal = seal
        let closed = try await userKeys.fetchingMissingKeys {
            try await pool.transaction { connection in
                let read = kind.read(keys)
                let found = try await connection.runByIndex(read)[read.count - 1]
                var renewal = Renewal(seal: seal)
                let queries = try found.readSealed { try kind.renewed(&$0, &renewal) }.compactMap(\.self)
                if !queries.isEmpty { _ = try await connection.run(queries) }
                return renewal.closed
            }
        }
        rows.leave(closed)
    }

    /// Seals all settings in one transaction. The transaction takes the lock that every writer of settings takes.
    private mutating func seal(_ settings: SealedSettings) async throws {
        let (organization, seal) = (organization, seal)
        let (count, closed) = try await pool.transaction { connection in
            let found = try await connection.run([
                Administration.lockUpstreamStatement(organization: organization),
                settings.read(organization: organization),
            ])[1]
            var renewal = Renewal(seal: seal)
            let queries = try found.read { try settings.renewed(&$0, of: organization, &renewal) }
            if !queries.isEmpty { _ = try await connection.run(queries) }
            return (queries.count, renewal.closed)
        }
        rows.sealed += count
        rows.leave(closed)
    }

    private func user(from start: UUID) async throws -> UUID? {
        let found = try await pool.run([SealStatements.nextLane(organization: organization, first: start)])[0]
        return try found.read { try $0.read("user_id", as: UUID.self) }.first
    }

    private func clearMappings(_ lane: LaneKey) async throws {
        let clear = SealStatements.clearMappings(organization: organization, user: lane.user, limit: Self.scan)
        let queries = [LaneRows.lock([lane]), clear]
        var cleared = Self.scan
        while cleared == Self.scan {
            cleared = try await pool.transaction { Int64(try await $0.run(queries)[1].affected) }
        }
    }
}

/// An organization's entities, each under its own lock.
struct SealedEntities: SealedDocuments {
    let organization: UUID

    var page: Statement { SealStatements.entities }
    var first: EntityKey { EntityKey(type: "", id: "") }

    func place(_ key: EntityKey) -> Parameters {
        let parameters = Parameters(of: organization, key.type, key.id)
        return parameters
    }

    func key(_ row: inout RowReader) throws -> EntityKey { try row.entityKey() }
    func next(after key: EntityKey) -> EntityKey? { key }
    func read(_ keys: [EntityKey]) -> [Query] { [EntityRows.lock(keys.map { (organization, $0) })] }
    func find(_ keys: [EntityKey]) -> Query { EntityRows.find(at: keys.map { (organization, $0) }) }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        guard let (key, document, owner) = try EntityRows.document(&row) else { return nil }
        var parameters = place(key)
        let place = SealedPlace.document(type: key.type, id: key.id)
        parameters.add(PostgresJSON(try renewal.json(document, as: place, type: key.type, owner: owner)))
        return Query(SealStatements.writeEntity, parameters)
    }
}

// MARK: - SealedParkedEvents

/// An organization's parked events, each under its own lock.
struct SealedParkedEvents: SealedDocuments {
    /// An event's source and id.
    struct Key: Sendable {
        let source: String
        let event: String
    }

    let organization: UUID

    var page: Statement { SealStatements.parkedEvents }
    var first: Key { Key(source: "", event: "") }

    func place(_ key: Key) -> Parameters { Parameters(of: organization, key.source, key.event) }

    func key(_ row: inout RowReader) throws -> Key {
        Key(source: try row.read("source"), event: try row.read("event_id"))
    }

    func next(after key: Key) -> Key? { key }

    func read(_ keys: [Key]) -> [Query] { [query(SealStatements.lockParkedEvents, keys)] }
    func find(_ keys: [Key]) -> Query { query(SealStatements.readParkedEvents, keys) }

    private func query(_ statement: Statement, _ keys: [Key]) -> Query {
        statement(
            organizations: keys.map { _ in organization },
            sources: keys.map(\.source),
            event_ids: keys.map(\.event)
        )
    }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        let key = try key(&row)
        guard let document: [UInt8] = try row.read("document") else { return nil }
        let place = SealedPlace.parked(source: key.source, event: key.event)
        let (type, owner) = (try row.read("entity_type", as: String.self), try row.read("owner_id", as: UUID?.self))
        var parameters = self.place(key)
        parameters.add(PostgresJSON(try renewal.json(document, as: place, type: type, owner: owner)))
        return Query(SealStatements.writeParkedEvent, parameters)
    }
}
