package import Foundation
import Postgres
package import SyncModel

/// What became of an organization whose rows were to be sealed.
package struct SealedRows: Sendable, Hashable {
    package var examined = 0
    /// Rows that were written anew.
    package var sealed = 0
    /// Values that cannot be opened; they were left as they are.
    package var unreadable = 0
    /// The first of these in words, for an operator to look at; they name rows, and no content.
    package var unreadableValues: [String] = []
    /// How many are named at most.
    package static let namedValues = 20
    /// Data keys that were dropped, because nothing is sealed under them any more.
    package var droppedKeys = 0
    /// Whether a value is left under an older data key that another configuration opens.
    fileprivate var needsOlderKeys = false

    fileprivate mutating func leave(_ values: [Closed], _ seal: Seal) {
        unreadable += values.count
        for value in values {
            if unreadableValues.count < Self.namedValues { unreadableValues.append(value.words) }
            if case .unknownKey(let number) = value.error, seal.isThere(number) { needsOlderKeys = true }
        }
    }
}

/// A value that does not open, and why.
private struct Closed: Sendable {
    let place: SealedPlace
    let error: SealError

    var words: String { "\(place.name) in \(place.row): \(error)" }
}

extension Seal {
    /// A stored value sealed anew; as it is, and noted, where it does not open.
    fileprivate func renewed(
        json stored: [UInt8]?,
        as place: SealedPlace,
        _ closed: inout [Closed]
    ) throws(SealError) -> [UInt8]? {
        let plain: [UInt8]?
        do throws(SealError) {
            plain = try open(json: stored, as: place)
        } catch {
            try Self.note(error, place, &closed)
            return stored
        }
        return try seal(json: plain, as: place)
    }

    /// The same of a text column.
    fileprivate func renewed(
        text stored: String?,
        as place: SealedPlace,
        _ closed: inout [Closed]
    ) throws(SealError) -> String? {
        let plain: String?
        do throws(SealError) {
            plain = try open(text: stored, as: place)
        } catch {
            try Self.note(error, place, &closed)
            return stored
        }
        return try seal(text: plain, as: place)
    }

    private static func note(_ error: SealError, _ place: SealedPlace, _ closed: inout [Closed]) throws(SealError) {
        if case .locked = error { throw error }
        closed.append(Closed(place: place, error: error))
    }
}

/// Seals what is stored in the plain or under an older data key, row by row, while gateways run: a mutation or a refusal
/// under its lane's lock, an entity under its own, a few at a time.
extension KeyRotation {
    /// How long after a data key was made a gateway that has not heard of it may still write under the one before, in
    /// seconds: five until it looks again, and as long as any transaction takes, twice over.
    package static let grace: Double = 60
    /// Rows that one statement looks at.
    static let scan: Int64 = 500
    /// Rows that one transaction writes.
    static let batch = 20

    /// Seals an organization's rows under its newest data key, and drops its older ones. What is sealed already is only
    /// looked at, so a run that was cut off goes on when it is called again. Values that do not open are left as they are, and named.
    ///
    /// - Parameters:
    ///   - grace: seconds after the newest key was made before which nothing is done; waits for their end.
    ///   - dropsKeys: whether older data keys go once nothing is sealed under them.
    ///   - onWait: told how many seconds are waited first, where they are.
    ///   - progress: called after each few hundred rows.
    /// - Returns: nil where there is no such organization.
    /// - Throws: `validation_failed` where the organization has no data key and there is no master key to wrap one;
    ///   `store_unavailable` while its data are locked.
    package func sealRows(
        of organization: UUID,
        grace: Double = KeyRotation.grace,
        dropsKeys: Bool = true,
        onWait: @Sendable (Double) -> Void = { _ in },
        _ progress: @escaping @Sendable (SealedRows) -> Void
    ) async throws(Problem) -> SealedRows? {
        do {
            catalog.invalidate(organization)
            guard try await isThere(organization) else { return nil }
            let seal = try await catalog.seal(of: organization)
            guard let number = seal.number else {
                throw Problem(.validationFailed, "the organization has no data key, and no master key is to wrap one")
            }
            try await waitUntilKnown(number, organization, grace, onWait)
            var run = Run(keyRotation: self, organization: organization, seal: seal, number: number, progress: progress)
            try await run.sealUpstream()
            try await run.sealLanes()
            try await run.sealEntities()
            if dropsKeys, !run.rows.needsOlderKeys {
                run.rows.droppedKeys = try await drop(before: number, organization)
            }
            catalog.invalidate(organization)
            return run.rows
        } catch {
            throw failure.problem(error, doing: "seal an organization's rows")
        }
    }

    /// Makes an organization's first data key, if it has none and a master key is to wrap one; false where there is no
    /// such organization. For whoever seals many: then only the first of them is waited for.
    package func prepare(_ organization: UUID) async throws(Problem) -> Bool {
        catalog.invalidate(organization)
        return try await isThere(organization)
    }

    /// One that is being purged is none any more.
    private func isThere(_ organization: UUID) async throws(Problem) -> Bool {
        let status = try await catalog.entry(organization).organization?.status
        return status == .active || status == .suspended
    }

    private func waitUntilKnown(
        _ number: Int32,
        _ organization: UUID,
        _ grace: Double,
        _ onWait: @Sendable (Double) -> Void
    ) async throws {
        var parameters = Parameters(of: organization)
        parameters.add(number)
        let rows = try await pool.run([Query(Self.ageStatement, parameters)])[0]
        guard let made = try rows.read({ try $0.moment("created_at") }).first else { return }
        let known = made.adding(seconds: grace)
        let wait = known.microseconds - now().microseconds
        guard wait > 0 else { return }
        onWait(Double(wait) / 1_000_000)
        try await Task.sleep(for: .microseconds(wait))
    }

    private func drop(before number: Int32, _ organization: UUID) async throws -> Int {
        var parameters = Parameters(of: organization)
        parameters.add(number)
        return Int(try await pool.run([Query(Self.dropStatement, parameters)])[0].affected)
    }

    // MARK: - Statements

    static let ageStatement = Statement(
        "organization_keys_age",
        "SELECT created_at FROM organization_keys WHERE organization_id = $1 AND number = $2"
    )

    static let dropStatement = Statement(
        "organization_keys_drop",
        "DELETE FROM organization_keys WHERE organization_id = $1 AND number < $2"
    )

    static let nextLaneStatement = Statement(
        "seal_next_lane",
        "SELECT user_id FROM lanes WHERE organization_id = $1 AND user_id >= $2 ORDER BY user_id LIMIT 1"
    )

    /// Whether a value is to be sealed anew: it is there and begins in another way.
    private static func isOther(_ column: String, _ beginning: String) -> String {
        "coalesce(NOT starts_with(\(column)::text, \(beginning)), false)"
    }

    /// A page of a lane's mutations by id, and which of them are to be sealed anew.
    static let mutationsStatement = Statement(
        "seal_mutations",
        """
        SELECT m.id, \(["payload", "headers", "sent_payload", "response_body", "error"]
            .map { isOther("m." + $0, "$5") }.joined(separator: " OR ")) OR \(isOther("m.last_error", "$6")) AS is_due
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id >= $3
        ORDER BY m.id
        LIMIT $4
        """
    )

    static let mutationStatement = Statement(
        "seal_mutation",
        """
        SELECT m.id, m.payload, m.headers, m.sent_payload, m.response_body, m.error, m.last_error
        FROM unnest($3::uuid[]) AS k (id)
        CROSS JOIN LATERAL (
            SELECT * FROM mutations x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
            OFFSET 0
        ) m
        """
    )

    /// Changes no index and no position: it is no news.
    static let writeMutationStatement = Statement(
        "seal_write_mutation",
        """
        UPDATE mutations SET payload = $4, headers = $5, sent_payload = $6, response_body = $7, error = $8,
            last_error = $9
        WHERE organization_id = $1 AND user_id = $2 AND id = $3
        """
    )

    static let rejectionsStatement = Statement(
        "seal_rejections",
        """
        SELECT r.idempotency_key AS id, \(isOther("r.error", "$5")) AS is_due
        FROM rejections r
        WHERE r.organization_id = $1 AND r.user_id = $2 AND r.idempotency_key >= $3
        ORDER BY r.idempotency_key
        LIMIT $4
        """
    )

    static let rejectionStatement = Statement(
        "seal_rejection",
        """
        SELECT r.idempotency_key, r.error
        FROM unnest($3::uuid[]) AS k (key)
        CROSS JOIN LATERAL (
            SELECT * FROM rejections x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.idempotency_key = k.key
            OFFSET 0
        ) r
        """
    )

    static let writeRejectionStatement = Statement(
        "seal_write_rejection",
        """
        UPDATE rejections SET error = $4
        WHERE organization_id = $1 AND user_id = $2 AND idempotency_key = $3
        """
    )

    /// What an upstream said of a create that failed stands sealed in the mutation; here nobody reads it.
    static let clearMappingsStatement = Statement(
        "seal_clear_mappings",
        """
        UPDATE id_mappings SET last_error = NULL
        WHERE organization_id = $1 AND user_id = $2 AND (client_id, entity_type) IN (
            SELECT i.client_id, i.entity_type FROM id_mappings i
            WHERE i.organization_id = $1 AND i.user_id = $2 AND i.last_error IS NOT NULL
            LIMIT $3)
        """
    )

    static let entitiesStatement = Statement(
        "seal_entities",
        """
        SELECT e.entity_type, e.id, \(isOther("e.document", "$5")) AS is_due
        FROM entities e
        WHERE e.organization_id = $1 AND (e.entity_type, e.id) > ($2, $3)
        ORDER BY e.entity_type, e.id
        LIMIT $4
        """
    )

    static let writeEntityStatement = Statement(
        "seal_write_entity",
        "UPDATE entities SET document = $4 WHERE organization_id = $1 AND entity_type = $2 AND id = $3"
    )

    static let upstreamStatement = Statement(
        "seal_upstream",
        "SELECT credential, headers FROM upstreams WHERE organization_id = $1"
    )

    static let writeUpstreamStatement = Statement(
        "seal_write_upstream",
        "UPDATE upstreams SET credential = $2, headers = $3 WHERE organization_id = $1"
    )
}

/// One organization's rows on their way.
private struct Run {
    let keyRotation: KeyRotation
    let organization: UUID
    let seal: Seal
    let number: Int32
    let progress: @Sendable (SealedRows) -> Void
    var rows = SealedRows()

    private var pool: Pool { keyRotation.pool }
    private var jsonBeginning: String { SealedText.beginning(number: number, isJSON: true) }

    mutating func sealUpstream() async throws {
        let key = Parameters(of: organization)
        let (organization, seal) = (organization, seal)
        let isThere = try await pool.transaction { [key] connection in
            let found = try await connection.run([
                Query(Administration.lockUpstreamStatement, key), Query(KeyRotation.upstreamStatement, key),
            ])[1]
            // one that does not open locks its organization, which does not come so far
            guard var row = found.first else { return false }
            let credential = try seal.open(json: row.optionalBytes("credential"), as: .upstream(.credential))
            let headers = try seal.open(json: row.optionalBytes("headers"), as: .upstream(.headers))
            var parameters = Parameters(of: organization)
            parameters.add(json: try seal.seal(json: credential, as: .upstream(.credential)))
            parameters.add(json: try seal.seal(json: headers, as: .upstream(.headers)))
            _ = try await connection.run(Query(KeyRotation.writeUpstreamStatement, parameters))
            return true
        }
        if isThere { rows.sealed += 1 }
    }

    // MARK: - Lanes

    mutating func sealLanes() async throws {
        // clients make up ids: the first of all is one, too
        var next: UUID? = UUID.least
        while let start = next {
            var parameters = Parameters(of: organization)
            parameters.add(start)
            let found = try await pool.run([Query(KeyRotation.nextLaneStatement, parameters)])[0]
            guard let user = try found.read({ try $0.uuid("user_id") }).first else { return }
            next = user.successor
            let lane = LaneKey(organization: organization, user: user)
            try await pass(
                KeyRotation.mutationsStatement,
                lane,
                text: SealedText.beginning(number: number, isJSON: false)
            ) {
                [seal] in try await Self.sealMutations($0, lane, seal, on: $1)
            }
            try await pass(KeyRotation.rejectionsStatement, lane, text: nil) { [seal] in
                try await Self.sealRejections($0, lane, seal, on: $1)
            }
            try await clearMappings(lane)
        }
    }

    private func clearMappings(_ lane: LaneKey) async throws {
        var parameters = Parameters(of: lane)
        parameters.add(KeyRotation.scan)
        var cleared = KeyRotation.scan
        while cleared == KeyRotation.scan {
            cleared = try await pool.transaction { [parameters] connection in
                let results = try await connection.run([
                    LaneRows.lock([lane]), Query(KeyRotation.clearMappingsStatement, parameters),
                ])
                return Int64(results[1].affected)
            }
        }
    }

    /// Looks at all rows of one kind of a lane, and has those written that are to be sealed anew.
    private mutating func pass(
        _ statement: Statement,
        _ lane: LaneKey,
        text: String?,
        _ write: @Sendable ([UUID], Connection) async throws -> [Closed]
    ) async throws {
        var next: UUID? = UUID.least
        while let start = next {
            var parameters = Parameters(of: lane)
            parameters.add(start)
            parameters.add(KeyRotation.scan)
            parameters.add(jsonBeginning)
            if let text { parameters.add(text) }
            let found = try await pool.run([Query(statement, parameters)])[0]
            let all = try found.read { (id: try $0.uuid("id"), isDue: try $0.bool("is_due")) }
            guard let last = all.last else { return }
            let ids = all.filter(\.isDue).map(\.id)
            for ids in Self.chunks(ids) {
                let closed = try await pool.transaction { connection in
                    _ = try await connection.run([Query(SettleStatements.planShape), LaneRows.lock([lane])])
                    return try await write(ids, connection)
                }
                rows.leave(closed, seal)
            }
            note(all.count, ids.count)
            next = last.id.successor
        }
    }

    private static func sealMutations(
        _ ids: [UUID],
        _ lane: LaneKey,
        _ seal: Seal,
        on connection: Connection
    ) async throws -> [Closed] {
        let found = try await connection.run(Query(KeyRotation.mutationStatement, Parameters(of: lane, ids)))
        let columns: [(StaticString, SealedPlace.Column)] = [
            ("payload", .payload), ("headers", .headers), ("sent_payload", .sentPayload),
            ("response_body", .responseBody), ("error", .error),
        ]
        var closed: [Closed] = []
        let queries = try found.read { row in
            let id = try row.uuid("id")
            func place(_ column: SealedPlace.Column) -> SealedPlace { .mutation(column, user: lane.user, id: id) }
            var parameters = Parameters(of: lane)
            parameters.add(id)
            for (name, column) in columns {
                parameters.add(json: try seal.renewed(json: row.optionalBytes(name), as: place(column), &closed))
            }
            let words = try row.optionalString("last_error")
            parameters.add(try seal.renewed(text: words, as: place(.lastError), &closed))
            return Query(KeyRotation.writeMutationStatement, parameters)
        }
        if !queries.isEmpty { _ = try await connection.run(queries) }
        return closed
    }

    private static func sealRejections(
        _ keys: [UUID],
        _ lane: LaneKey,
        _ seal: Seal,
        on connection: Connection
    ) async throws -> [Closed] {
        let found = try await connection.run(Query(KeyRotation.rejectionStatement, Parameters(of: lane, keys)))
        var closed: [Closed] = []
        let queries = try found.read { row in
            let id = try row.uuid("idempotency_key")
            let place = SealedPlace.rejection(user: lane.user, key: id)
            var parameters = Parameters(of: lane)
            parameters.add(id)
            parameters.add(json: try seal.renewed(json: row.bytes("error"), as: place, &closed))
            return Query(KeyRotation.writeRejectionStatement, parameters)
        }
        if !queries.isEmpty { _ = try await connection.run(queries) }
        return closed
    }

    // MARK: - Entities

    mutating func sealEntities() async throws {
        var last = EntityKey(type: "", id: "")
        while true {
            var parameters = Parameters(of: organization)
            parameters.add(last.type)
            parameters.add(last.id)
            parameters.add(KeyRotation.scan)
            parameters.add(jsonBeginning)
            let found = try await pool.run([Query(KeyRotation.entitiesStatement, parameters)])[0]
            let all = try found.read { (key: try $0.entityKey(), isDue: try $0.bool("is_due")) }
            guard let end = all.last else { return }
            let keys = all.filter(\.isDue).map(\.key)
            for keys in Self.chunks(keys) { try await sealEntities(keys) }
            note(all.count, keys.count)
            last = end.key
        }
    }

    private mutating func sealEntities(_ keys: [EntityKey]) async throws {
        let (organization, seal) = (organization, seal)
        let closed = try await pool.transaction { connection in
            let locks = keys.map { (organization: organization, key: $0) }
            let found = try await connection.run([Query(SettleStatements.planShape), EntityRows.lock(locks)])[1]
            var closed: [Closed] = []
            let queries = try EntityRows.documents(found).map { key, document in
                let place = SealedPlace.document(type: key.type, id: key.id)
                var parameters = Parameters(of: organization)
                parameters.add(key.type)
                parameters.add(key.id)
                parameters.add(json: try seal.renewed(json: document, as: place, &closed))
                return Query(KeyRotation.writeEntityStatement, parameters)
            }
            if !queries.isEmpty { _ = try await connection.run(queries) }
            return closed
        }
        rows.leave(closed, seal)
    }

    private mutating func note(_ examined: Int, _ sealed: Int) {
        rows.examined += examined
        rows.sealed += sealed
        progress(rows)
    }

    private static func chunks<Row>(_ rows: [Row]) -> [[Row]] {
        stride(from: 0, to: rows.count, by: KeyRotation.batch).map { start in
            Array(rows[start..<min(rows.count, start + KeyRotation.batch)])
        }
    }
}
