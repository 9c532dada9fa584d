import Foundation
import Postgres
import SyncModel
import SyncStore

/// A kind of rows that hold sealed values: how those are found, read and written that are to be sealed anew.
protocol SealedKind: Sendable {
    associatedtype Key: Sendable

    /// Reads a page of keys from a place on, and of each whether its row is to be sealed anew. Its parameters: the place,
    /// how many, how what is sealed begins in JSON and, where there is a text, in texts.
    var page: Statement { get }
    var hasText: Bool { get }
    /// Where the first page begins.
    var first: Key { get }
    func place(_ key: Key) -> Parameters
    func key(_ row: inout RowReader) throws -> Key
    /// Where the page after one that ends with this key begins; nil: nowhere.
    func next(after key: Key) -> Key?

    /// Locks rows and reads them: the last query does.
    func read(_ keys: [Key]) -> [Query]
    /// What writes a row with its values sealed anew; nil where there is nothing to write.
    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query?
}

/// A table whose rows belong to lanes.
struct SealedTable: Sendable {
    /// A column with sealed values, and what it is to a row of a user.
    struct Column: Sendable {
        let name: StaticString
        var isText = false
        let place: @Sendable (_ user: UUID, _ id: UUID) -> SealedPlace
    }

    let columns: [Column]
    let page: Statement
    let read: Statement
    /// Changes no index and no position: it is no news.
    let write: Statement

    static let mutations = SealedTable(
        "mutation",
        id: "id",
        [
            mutation("payload", .payload), mutation("headers", .headers), mutation("sent_payload", .sentPayload),
            mutation("response_body", .responseBody), mutation("error", .error),
            mutation("last_error", .lastError, isText: true),
        ]
    )

    static let rejections = SealedTable(
        "rejection",
        id: "idempotency_key",
        [
            Column(name: "error") { .rejection(user: $0, key: $1) }
        ]
    )

    static let statements = [mutations, rejections].flatMap { [$0.page, $0.read, $0.write] }

    private static func mutation(_ name: StaticString, _ column: SealedPlace.Column, isText: Bool = false) -> Column {
        Column(name: name, isText: isText) { .mutation(column, user: $0, id: $1) }
    }

    /// - Parameters:
    ///   - name: what a row of it is; the table has an `s` more.
    ///   - id: what tells a user's rows apart.
    private init(_ name: String, id: String, _ columns: [Column]) {
        self.columns = columns
        let isDue = columns.map { SealStatements.isOther("r.\($0.name)", $0.isText ? "$6" : "$5") }
        page = Statement(
            "seal_\(name)s",
            """
            SELECT r.\(id) AS id, \(isDue.joined(separator: " OR ")) AS is_due
            FROM \(name)s r
            WHERE r.organization_id = $1 AND r.user_id = $2 AND r.\(id) >= $3
            ORDER BY r.\(id)
            LIMIT $4
            """
        )
        read = Statement(
            "seal_\(name)",
            """
            SELECT r.\(id) AS id, \(columns.map { "r.\($0.name)" }.joined(separator: ", "))
            FROM unnest($3::uuid[]) AS k (id)
            CROSS JOIN LATERAL (
                SELECT * FROM \(name)s x
                WHERE x.organization_id = $1 AND x.user_id = $2 AND x.\(id) = k.id
                OFFSET 0
            ) r
            """
        )
        let values = columns.enumerated().map { "\($1.name) = $\($0 + 4)" }
        write = Statement(
            "seal_write_\(name)",
            """
            UPDATE \(name)s SET \(values.joined(separator: ", "))
            WHERE organization_id = $1 AND user_id = $2 AND \(id) = $3
            """
        )
    }
}

/// A lane's rows of a table, under its lock.
struct SealedLaneRows: SealedKind {
    let table: SealedTable
    let lane: LaneKey

    var page: Statement { table.page }
    var hasText: Bool { table.columns.contains(where: \.isText) }
    // clients make up ids: the first of all is one, too
    var first: UUID { .least }

    func place(_ id: UUID) -> Parameters {
        var parameters = Parameters(of: lane)
        parameters.add(id)
        return parameters
    }

    func key(_ row: inout RowReader) throws -> UUID { try row.uuid("id") }
    func next(after id: UUID) -> UUID? { id.successor }

    func read(_ ids: [UUID]) -> [Query] {
        [LaneRows.lock([lane]), Query(table.read, Parameters(of: lane, ids))]
    }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        let id = try row.uuid("id")
        var parameters = place(id)
        for column in table.columns {
            let place = column.place(lane.user, id)
            if column.isText {
                parameters.add(try renewal.text(row.optionalString(column.name), as: place))
            } else {
                parameters.add(json: try renewal.json(row.optionalBytes(column.name), as: place))
            }
        }
        return Query(table.write, parameters)
    }
}

/// An organization's entities, each under its own lock.
struct SealedEntities: SealedKind {
    let organization: UUID

    var page: Statement { SealStatements.entities }
    var hasText: Bool { false }
    var first: EntityKey { EntityKey(type: "", id: "") }

    func place(_ key: EntityKey) -> Parameters {
        var parameters = Parameters(of: organization)
        parameters.add(key.type)
        parameters.add(key.id)
        return parameters
    }

    func key(_ row: inout RowReader) throws -> EntityKey { try row.entityKey() }
    func next(after key: EntityKey) -> EntityKey? { key }
    func read(_ keys: [EntityKey]) -> [Query] { [EntityRows.lock(keys.map { (organization, $0) })] }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        guard let (key, document) = try EntityRows.document(&row) else { return nil }
        var parameters = place(key)
        parameters.add(json: try renewal.json(document, as: .document(type: key.type, id: key.id)))
        return Query(SealStatements.writeEntity, parameters)
    }
}
