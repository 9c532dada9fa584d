package import Foundation
package import Postgres
package import SyncModel
package import SyncStore

/// Seals one organization's rows.
///
/// First it opens all of them, without locks. So it detects the values that do not open, and the users whose keys are
/// gone, before it makes any key. Then it seals the rows that are due, a few in each transaction.
package struct SealingRun {
    /// The number of rows that one statement checks for whether they require sealing.
    package static let scan = SealedLaneRows.scan
    /// Rows that one transaction writes, or one statement reads.
    package static let batch = 20

    package let pool: Pool
    package var userKeys: UserKeys
    package let organization: UUID
    package let seal: Seal
    package let number: Int32
    package let progress: @Sendable (SealedRows) -> Void
    package var rows = SealedRows()

    private enum Step {
        /// Opens every row, and seals none.
        case look
        /// Seals those that are due.
        case write
    }

    package mutating func sealAll() async throws {
        try await sealUpstream()
        try await sealWebhooks()
        try await sealSources()
        try await walk(.look)
        try await walk(.write)
    }

    private mutating func walk(_ step: Step) async throws {
        // clients choose ids: the least UUID is one, too
        var next: UUID? = UUID.least
        while let start = next, let user = try await user(from: start) {
            let lane = LaneKey(organization: organization, user: user)
            for table in [SealedTable.mutations, .rejections] {
                try await pass(SealedLaneRows(table: table, lane: lane), step)
            }
            if step == .write { try await clearMappings(lane) }
            next = user.successor
        }
        try await pass(SealedEntities(organization: organization), step)
        try await pass(SealedParkedEvents(organization: organization), step)
    }

    private mutating func pass<Kind: SealedKind>(_ kind: Kind, _ step: Step) async throws {
        var next: Kind.Key? = kind.first
        while let start = next {
            var parameters = kind.place(start)
            parameters.add(Self.scan)
            kind.add(number, seal, to: &parameters)
            let found = try await pool.run([Query(kind.page, parameters)])[0]
            let all = try found.read { (key: try kind.key(&$0), isDue: try $0.bool("is_due")) }
            guard let last = all.last?.key else { return }
            let due = all.filter(\.isDue).map(\.key)
            switch step {
            case .look:
                try await inBatches(due) { try await $0.look(at: $1, of: kind, areDue: true) }
                try await inBatches(all.filter { !$0.isDue }.map(\.key)) {
                    try await $0.look(at: $1, of: kind, areDue: false)
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

    /// Opens rows. Values of due ones that cannot be opened are noted when they are written.
    private mutating func look<Kind: SealedKind>(at keys: [Kind.Key], of kind: Kind, areDue: Bool) async throws {
        let seal = seal
        let closed = try await userKeys.supplying {
            let found = try await pool.runByIndex(kind.look(keys))
            var renewal = Renewal(seal: seal, seals: false)
            _ = try found.readSealed { try kind.renewed(&$0, &renewal) }
            return renewal.closed
        }
        // a row closed for any other reason is left: a key created now would be taken for the one that sealed the row
        for case .keys(_, let user?) in closed.map(\.cover) {
            userKeys.withoutKey.insert(LaneKey(organization: organization, user: user))
        }
        if !areDue { rows.leave(closed) }
    }

    /// Seals rows again under their locks; values that cannot be opened stay unchanged and are recorded.
    private mutating func write<Kind: SealedKind>(_ keys: [Kind.Key], of kind: Kind) async throws {
        let seal = seal
        let closed = try await userKeys.supplying {
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

    private mutating func sealUpstream() async throws {
        let (key, seal) = (Parameters(of: organization), seal)
        let isThere = try await pool.transaction { [key] connection in
            let found = try await connection.run([
                Query(Administration.lockUpstreamStatement, key), Query(SealStatements.upstream, key),
            ])[1]
            // settings that cannot be opened lock their organization, and then the run does not come here
            guard var row = found.first else { return false }
            var parameters = key
            for (column, place) in [("credential", .credential), ("headers", .headers)]
                as [(StaticString, SealedPlace.UpstreamColumn)]
            {
                let plain = try seal.open(json: row.optionalBytes(column), as: .upstream(place))
                parameters.add(json: try seal.seal(json: plain, as: .upstream(place)))
            }
            _ = try await connection.run(Query(SealStatements.writeUpstream, parameters))
            return true
        }
        if isThere { rows.sealed += 1 }
    }

    /// All of them in one transaction: an organization has few, and every writer of a webhook takes the same lock.
    private mutating func sealWebhooks() async throws {
        let (key, seal) = (Parameters(of: organization), seal)
        let (count, closed) = try await pool.transaction { [key] connection in
            let found = try await connection.run([
                Query(Administration.lockUpstreamStatement, key), Query(SealStatements.webhooks, key),
            ])[1]
            var renewal = Renewal(seal: seal)
            let queries = try found.read { row in
                let id = try row.uuid("id")
                var parameters = Parameters(of: organization, id)
                parameters.add(try renewal.text(row.optionalString("secret"), as: .webhook(.secret, id)))
                parameters.add(
                    try renewal.text(row.optionalString("previous_secret"), as: .webhook(.previousSecret, id))
                )
                return Query(SealStatements.writeWebhook, parameters)
            }
            if !queries.isEmpty { _ = try await connection.run(queries) }
            return (queries.count, renewal.closed)
        }
        rows.sealed += count
        rows.leave(closed)
    }

    /// As webhooks' secrets are.
    private mutating func sealSources() async throws {
        let (key, seal) = (Parameters(of: organization), seal)
        let (count, closed) = try await pool.transaction { [key] connection in
            let found = try await connection.run([
                Query(Administration.lockUpstreamStatement, key), Query(SealStatements.sources, key),
            ])[1]
            var renewal = Renewal(seal: seal)
            let queries = try found.read { row in
                let name = try row.string("name")
                var parameters = Parameters(of: organization, name)
                parameters.add(try renewal.text(row.optionalString("secret"), as: .source(.secret, name)))
                parameters.add(
                    try renewal.text(row.optionalString("previous_secret"), as: .source(.previousSecret, name))
                )
                return Query(SealStatements.writeSource, parameters)
            }
            if !queries.isEmpty { _ = try await connection.run(queries) }
            return (queries.count, renewal.closed)
        }
        rows.sealed += count
        rows.leave(closed)
    }

    private func user(from start: UUID) async throws -> UUID? {
        let parameters = Parameters(of: organization, start)
        let found = try await pool.run([Query(SealStatements.nextLane, parameters)])[0]
        return try found.read { try $0.uuid("user_id") }.first
    }

    private func clearMappings(_ lane: LaneKey) async throws {
        let parameters = Parameters(of: lane, Self.scan)
        let queries = [LaneRows.lock([lane]), Query(SealStatements.clearMappings, parameters)]
        var cleared = Self.scan
        while cleared == Self.scan {
            cleared = try await pool.transaction { Int64(try await $0.run(queries)[1].affected) }
        }
    }
}
