import FoundationEssentials
import JSONText
import Postgres
import SyncHTTP
package import SyncModel
package import SyncStore

/// All stored data of one user, as NDJSON: each line is a JSON object with its `kind`.
///
/// Each page of rows is read in a separate statement. During an export of any size, the gateway holds no transaction,
/// no lock, and at most one page in memory. Rows that are written during the export may be missing.
///
/// The last line has the kind `end`. An export without this line is incomplete.
package struct UserExport: Sendable {
    /// The number of documents that one statement reads.
    private static let documents = 25
    /// The number of rows that one statement reads after a scan has found them. Each row has a few hundred bytes.
    private static let named = 500
    /// The version of the format, in the first line.
    private static let version = 1

    let tables: [StoredTable]
    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure

    init(_ store: Store) {
        tables = store.tables
        pool = store.pool
        catalog = store.catalog
        now = store.now
        failure = store.failure
    }

    /// Whether the user has data to export.
    ///
    /// - Throws: `not_found`, with the target, if the user was joined into another user.
    package func isKnown(_ user: LaneKey) async throws(Problem) -> Bool {
        guard !Writer.isReserved(user.user) else { return false }
        let facts: JoinFacts
        do {
            facts = try await joinFacts(of: user)
            if facts.target == nil, !facts.isKnown {
                return try await UserReferences.exist(of: user, pool)
            }
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
        if let target = facts.target {
            throw Problem(.notFound, "The user is merged into \(target.lowercased), which has all of the data.")
        }
        return true
    }

    /// Whether a user is known, and the joins of the user.
    private struct JoinFacts {
        /// The user into whom this user was joined.
        let target: UUID?
        let isKnown: Bool
        /// The users who were joined into this user.
        let joined: [UUID]
    }

    private func joinFacts(of user: LaneKey) async throws -> JoinFacts {
        let rows = try await pool.runByIndex(ExportedRows.joinFacts(organization: user.organization, user: user.user))
        return try rows.read { row in
            JoinFacts(
                target: try row.read("into_id"),
                isKnown: try row.read("is_known"),
                joined: try row.read("joined")
            )
        }[0]
    }

    /// Exports the lines. It calls `write` with several complete lines at a time.
    ///
    /// - Parameter room: the budget of memory for pages. Memory is reserved while a page is read, and released while
    ///   the page is written. A page waits for memory as long as necessary, because an export that has begun cannot be
    ///   refused.
    /// - Throws: the errors of `write`; `store_unavailable`.
    package func run(
        _ user: LaneKey,
        room: PagePermit = .unbounded,
        _ write: ([UInt8]) async throws -> Void
    ) async throws {
        func writeOutside(_ bytes: [UInt8]) async throws {
            room.release()
            try await write(bytes)
            try await room.enterPatiently()
        }
        try await room.enterPatiently()
        defer { room.release() }
        // the cache is refreshed because another gateway may just have created a data key
        catalog.invalidate(user.organization)
        do {
            let seal = try await catalog.seal(of: user.organization).withoutKeyRefresh
            let organization = try await catalog.organization(user.organization)
            var lines = ExportLines(user: user.user, seal: seal, organization: organization, moment: now())
            lines.begin(user, version: Self.version)
            for rows in tables.compactMap(ExportedRows.init) {
                try await run(rows, of: user, &lines, writeOutside)
            }
            try await documents(of: user, &lines, room, writeOutside)
            for table in tables {
                guard case .scan(let kind, let statement, _) = table.export,
                    case .scan(let scan, _) = table.users?.erase
                else { continue }
                try await named(by: scan, statement, as: kind, of: user, &lines, writeOutside)
            }
            lines.end()
            try await writeOutside(lines.take())
        } catch let error as PostgresError {
            throw failure.problem(error, doing: "export a user")
        } catch let error as SealError {
            throw failure.problem(error, doing: "export a user")
        }
    }

    private func run(
        _ kind: ExportedRows,
        of user: LaneKey,
        _ lines: inout ExportLines,
        _ write: ([UInt8]) async throws -> Void
    ) async throws {
        var query = kind.first(organization: user.organization, user: user.user, limit: kind.lines.page)
        while true {
            let rows = try await pool.runByIndex(query)
            let start = lines
            let keys: [String]
            (lines, keys) = try await catalog.userKeys.fetchingMissingKeys {
                var (next, keys) = (start, [String]())
                for var row in rows {
                    keys =
                        try kind.lines.form == .mutation ? next.addMutation(&row, of: kind) : next.add(&row, of: kind)
                }
                return (next, keys)
            }
            if rows.count > 0 { try await write(lines.take()) }
            guard rows.count == kind.lines.page else { return }
            var parameters = Parameters(of: user)
            for key in keys { parameters.add(key) }
            parameters.add(kind.lines.page)
            query = Query(kind.next, parameters)
        }
    }

    private func documents(
        of user: LaneKey,
        _ lines: inout ExportLines,
        _ room: PagePermit,
        _ write: ([UInt8]) async throws -> Void
    ) async throws {
        let scan = EntityScan(pool: pool, organization: user.organization, user: user.user)
        var pending = lines
        try await scan.run(EntityScan.named, passed: { _ in try await room.yield() }) { found in
            for start in stride(from: 0, to: found.count, by: Self.documents) {
                let part = found[start..<min(start + Self.documents, found.count)]
                let query = ExportedRows.entities(
                    organization: user.organization,
                    types: part.map(\.type),
                    ids: part.map(\.id),
                    user: user.user
                )
                let rows = try await pool.runByIndex(query)
                let start = pending
                pending = try await catalog.userKeys.fetchingMissingKeys {
                    var next = start
                    for var row in rows { try next.addEntity(&row) }
                    return next
                }
                if rows.count > 0 { try await write(pending.take()) }
            }
        }
        lines = pending
    }

    /// Writes a line for each row that contains the user's id but is not stored under this id.
    private func named(
        by scan: NamingScan,
        _ statement: Statement,
        as kind: String,
        of user: LaneKey,
        _ lines: inout ExportLines,
        _ write: ([UInt8]) async throws -> Void
    ) async throws {
        var pending = lines
        // rows that were written before a join contain the id of the joined user, not of the target
        let names = try await [user.user] + joinFacts(of: user).joined
        try await scan.run(pool, of: user.organization, naming: names) { found in
            for start in stride(from: 0, to: found.count, by: Self.named) {
                let part = found[start..<min(start + Self.named, found.count)]
                let query = statement(
                    organization: user.organization,
                    first_keys: part.map(\.first),
                    second_keys: part.map(\.second),
                    users: names
                )
                let rows = try await pool.runByIndex(query)
                for var row in rows { pending.add(try row.read("row", as: [UInt8].self), as: kind) }
                if rows.count > 0 { try await write(pending.take()) }
            }
        }
        lines = pending
    }
}

/// The lines of an export that are not yet written.
struct ExportLines: Sendable {
    let user: UUID
    let seal: Seal
    let organization: Organization?
    /// The time at which the export began.
    let moment: Timestamp
    private var bytes: [UInt8] = []
    private var count: Int64 = 0

    init(user: UUID, seal: Seal, organization: Organization?, moment: Timestamp) {
        self.user = user
        self.seal = seal
        self.organization = organization
        self.moment = moment
    }

    mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    mutating func begin(_ user: LaneKey, version: Int) {
        bytes += JSONWriter.object { writer in
            writer.member("kind", "export")
            writer.member("version", Int64(version))
            writer.member("organization", user.organization)
            writer.member("user", user.user)
            writer.member("exported_at", moment.rfc3339)
        }
        endLine()
    }

    /// Adds the last line, with the number of lines before it.
    mutating func end() {
        let count = count
        bytes += JSONWriter.object { writer in
            writer.member("kind", "end")
            writer.member("lines", count)
        }
        endLine()
    }

    /// Adds a row of an ``ExportedRows`` statement.
    ///
    /// - Returns: the row's key.
    mutating func add(_ row: inout RowReader, of kind: ExportedRows) throws -> [String] {
        let names: [StaticString] = ["key_1", "key_2", "key_3"]
        var keys: [String] = []
        for name in names.prefix(kind.lines.order.count) { keys.append(try row.read(name, as: String.self)) }
        let plain: [UInt8] = try row.read("row")
        let id = kind.sealed.isEmpty ? nil : try row.read("id", as: UUID.self)
        var unreadable: [String] = []
        var members: [(name: StaticString, value: [UInt8]?)] = []
        for column in kind.sealed {
            guard let id else { break }
            let place = column.place(user, id)
            if column.isText {
                let text = try seal.read(text: row.read(column.name), as: place, &unreadable)
                var writer = JSONWriter()
                if let text { writer.string(text) }
                members.append((column.name, text == nil ? nil : writer.bytes))
            } else {
                let value = try seal.read(json: row.read(column.name), as: place, &unreadable)
                members.append((column.name, value))
            }
        }
        line(kind.lines.kind, plain, members, unreadable)
        return keys
    }

    /// Adds a row of the ``ExportedRows`` statement of mutations: its details, as the API shows them, and further
    /// columns.
    ///
    /// - Returns: the row's key.
    mutating func addMutation(_ row: inout RowReader, of kind: ExportedRows) throws -> [String] {
        let key: String = try row.read("key_1")
        let plain: [UInt8] = try row.read("row")
        let id: UUID = try row.read("sent_id")
        let method: String? = try row.read("sent_method")
        let path: String? = try row.read("sent_endpoint")
        var unreadable: [String] = []
        let place = SealedPlace.mutation(.sentPayload, user: user, id: id)
        let body = try seal.read(json: row.read("sent_payload"), as: place, &unreadable)
        var detail = try MutationDetail(&row, user: user, seal)
        if let organization { detail = detail.seen(in: organization, at: moment) }
        var writer = JSONWriter(capacity: 1_024)
        writer.object { writer in
            writer.member("kind", kind.lines.kind)
            detail.writeMembers(to: &writer)
            writer.raw(plain.dropFirst().dropLast())
            guard let method else { return writer.member(null: "sent") }
            writer.member("sent") { writer in
                writer.member("method", method)
                writer.member("url_path", path)
                writer.member("body", raw: body)
                writer.unreadable(unreadable.isEmpty ? [] : ["body"])
            }
        }
        bytes += writer.bytes.inOneLine
        endLine()
        return [key]
    }

    mutating func addEntity(_ row: inout RowReader) throws {
        let key = try row.entityKey()
        let plain: [UInt8] = try row.read("row")
        var unreadable: [String] = []
        let document = try seal.read(
            json: row.read("document"),
            as: .document(type: key.type, id: key.id),
            &unreadable
        )
        line("entity", plain, [("document", document)], unreadable)
    }

    mutating func add(_ row: [UInt8], as kind: String) {
        line(kind, row, [], [])
    }

    /// Adds one line: the kind, the members of the object `plain`, and the sealed values.
    ///
    /// JSON from a device may contain line breaks between tokens. These line breaks are omitted, because they would end
    /// the line.
    private mutating func line(
        _ kind: String,
        _ plain: [UInt8],
        _ members: [(name: StaticString, value: [UInt8]?)],
        _ unreadable: [String]
    ) {
        var writer = JSONWriter(capacity: 1_024)
        writer.beginObject()
        writer.member("kind", kind)
        writer.raw(plain.dropFirst().dropLast())
        for (name, value) in members { writer.member(name, raw: value?.inOneLine) }
        if !unreadable.isEmpty {
            writer.name("unreadable")
            writer.beginArray()
            for name in unreadable { writer.string(name) }
            writer.endArray()
        }
        writer.endObject()
        bytes += writer.bytes
        endLine()
    }

    private mutating func endLine() {
        bytes.append(0x0a)
        count += 1
    }
}
