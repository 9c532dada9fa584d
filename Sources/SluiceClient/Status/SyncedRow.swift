public import GRDB

/// The synchronization state of one of the app's rows, for display next to the row.
///
/// Read the state in the app's own observation, which is then notified of changes:
///
///     ValueObservation.tracking { db in try sluice.row(of: Contact.self, key: contact.id, in: db) }
public struct SyncedRow: Sendable, Hashable {
    /// The permanent id, with its JSON type; nil until the server has assigned an id.
    public let serverID: JSON?
    /// The number of the row's writes that wait or are in progress.
    public let pending: Int
    /// The number of the row's writes that need a person's decision (`FailedWrite.fetchAll(_:of:key:)`). Conflicts are
    /// included, whereas ``SyncStatus/failed`` excludes them.
    public let failed: Int
    /// The entity as last received from the server, without the phone's own writes; nil if the entity was never
    /// received. Its references to other rows are the keys of these rows.
    public let server: ServerState?
    /// The reason why the row is held, which means that the app's table does not have the row's present state; nil if
    /// the row is not held.
    public let held: String?

    /// Creates a state, for previews and tests of an app's views.
    public init(
        serverID: JSON? = nil,
        pending: Int = 0,
        failed: Int = 0,
        server: ServerState? = nil,
        held: String? = nil
    ) {
        self.serverID = serverID
        self.pending = pending
        self.failed = failed
        self.server = server
        self.held = held
    }

    /// Whether the entity has its permanent id.
    public var hasPermanentID: Bool { serverID != nil }
}

/// An entity as last received from the server.
public struct ServerState: Sendable, Hashable {
    /// The entity's version, which counts the entity's writes at the server from 1; nil if the phone never received a
    /// version.
    public let version: Int64?
    /// Whether the entity was deleted.
    public let isDeleted: Bool
    /// The entity's members, as an object. For a deleted entity, these are the last received members.
    public let document: JSON?

    /// Creates a state, for previews and tests of an app's views.
    public init(version: Int64?, isDeleted: Bool = false, document: JSON? = nil) {
        self.version = version
        self.isDeleted = isDeleted
        self.document = document
    }
}

extension SyncedRow {
    static func fetch(_ db: Database, _ name: EntityName) throws -> SyncedRow? {
        let mapping = try IDMapping.of(name.entityType, key: name.key, db)
        let base = try ServerSnapshot.of(name, db)
        if mapping == nil, base == nil { return nil }
        let counts = try Row.fetchOne(
            db,
            sql: """
                SELECT
                    count(*) FILTER (WHERE \(WriteStatus.isPending)) AS pending,
                    count(*) FILTER (WHERE \(WriteStatus.needsDecision)) AS failed
                FROM sluice_mutations WHERE entity_type = ? AND key = ?
                """,
            arguments: [name.entityType, name.key]
        )
        let others =
            try Int.fetchOne(
                db,
                sql:
                    "SELECT count(*) FROM sluice_others WHERE entity_type = ? AND key = ? AND \(WriteStatus.needsDecision)",
                arguments: [name.entityType, name.key]
            ) ?? 0
        return SyncedRow(
            serverID: mapping?.serverID,
            pending: counts?["pending"] ?? 0,
            failed: (counts?["failed"] ?? 0) + others,
            server: base.map { ServerState(version: $0.version, isDeleted: $0.isDeleted, document: $0.document) },
            held: try String.fetchOne(
                db,
                sql: "SELECT reason FROM sluice_held WHERE entity_type = ? AND key = ?",
                arguments: [name.entityType, name.key]
            )
        )
    }
}

/// An entity whose present state the app's table does not accept, because of a constraint or because a member of the
/// document does not fit its column.
///
/// If ``isDeletion`` is true, the entity was deleted, and the table still contains its row because other rows refer to
/// it. Otherwise, the row is missing, or has the values of an earlier state.
///
/// The row is written as soon as the table accepts it. A held row delays only rows that refer to it by a foreign key.
/// To release the row, remove the cause: change the app's table or the mapping of its columns, or change the entity by
/// a write of any user. ``SluiceClient/writeHeldRows(in:)`` retries immediately. Each pull retries, too.
public struct HeldRow: Sendable, Hashable, Identifiable {
    /// The type and the key, which identify a row among the rows of all types.
    public struct ID: Sendable, Hashable {
        /// The entity type's name at the gateway.
        public let entityType: String
        /// The text of the row's key.
        public let key: String
    }

    /// The type and the key of the row.
    public var id: ID { ID(entityType: entityType, key: key) }
    /// The entity type's name at the gateway.
    public let entityType: String
    /// The text of the row's key.
    public let key: String
    /// The reason why the row is held.
    public let reason: String
    /// The row for which this row waits because of a foreign key.
    public let waitsFor: ID?
    /// The server's document. Its references to other rows are the keys of these rows. For a deleted entity, this is
    /// the last received document.
    public let document: JSON?
    /// Whether the table does not accept the deletion of the row. The app still shows the row. The row is deleted as
    /// soon as no other row refers to it. The app can also delete the referring rows, and then this row.
    public let isDeletion: Bool

    /// Creates a held row, for previews and tests of an app's views.
    public init(
        entityType: String,
        key: String,
        reason: String,
        waitsFor: ID? = nil,
        document: JSON? = nil,
        isDeletion: Bool = false
    ) {
        self.entityType = entityType
        self.key = key
        self.reason = reason
        self.waitsFor = waitsFor
        self.document = document
        self.isDeletion = isDeletion
    }

    /// A SQL condition: no document is to be shown for the row `h` of `sluice_held`. The last shown write of the row
    /// decides, or the base if there is no such write.
    static let isOfDeletion = """
        coalesce(
            (
                SELECT m.operation = 'delete' FROM sluice_mutations m
                WHERE m.entity_type = h.entity_type AND m.key = h.key AND m.is_shown
                ORDER BY m.sequence_number DESC LIMIT 1
            ),
            (
                SELECT d.is_deleted OR d.document IS NULL FROM sluice_base d
                WHERE d.entity_type = h.entity_type AND d.key = h.key
            ),
            1
        )
        """

    /// Returns all held rows, ordered by type and key.
    public static func fetchAll(_ db: Database) throws -> [HeldRow] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT h.entity_type, h.key, h.reason, h.waits_for_type, h.waits_for_key, b.document,
                    \(isOfDeletion) AS is_deletion
                FROM sluice_held h LEFT JOIN sluice_base b ON b.entity_type = h.entity_type AND b.key = h.key
                ORDER BY h.entity_type, h.key
                """
        ).map { row in
            let target: (String?, String?) = (row[3], row[4])
            return HeldRow(
                entityType: row[0],
                key: row[1],
                reason: row[2],
                waitsFor: target.0.flatMap { type in target.1.map { ID(entityType: type, key: $0) } },
                document: try row.json("document"),
                isDeletion: row["is_deletion"]
            )
        }
    }
}
