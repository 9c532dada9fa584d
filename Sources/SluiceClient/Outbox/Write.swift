public import Foundation
public import GRDB

/// A change to be synchronized, for ``SluiceClient/enqueue(_:in:)``.
public struct Write: Sendable {
    enum Content: Sendable {
        /// A change of a row: the operation, the entity type, and the values of the columns.
        case record(RowOperation, String, [String: DatabaseValue], original: [String: DatabaseValue]?)
        /// A deletion of a row by its key.
        case deletion(String, DatabaseValue)
        case request(Request)
    }

    /// A request to the organization's REST API that is not a simple change of a row.
    struct Request: Sendable {
        let method: String
        let endpoint: String
        let payload: JSON?
        let entityType: String
        let key: DatabaseValue?
    }

    let content: Content
    var options: Options

    /// The options of a write.
    public struct Options: Sendable {
        /// The priority that is sent with the write, from 0 to 1,000; nil for the entity's priority. The gateway uses
        /// priorities only to order mutations with equal numbers, and each write of this client has its own number
        /// (`docs/rules.md`, rule 1).
        public var priority: Int?
        /// Other writes that must take effect before this write.
        ///
        /// Dependencies on entities whose ids the write contains are added automatically.
        public var dependencies: [UUID]
        /// The order key, a text of 1 to 128 bytes without control characters; nil for none.
        ///
        /// If the organization's order is `dependencies`, writes with the same key take effect in the order in which
        /// they were enqueued.
        public var orderKey: String?
        /// The strategy for a conflict; nil for the entity's strategy.
        public var conflictResolution: ConflictResolution?
        /// The maximum number of attempts to reach the upstream, from 1 to 100, before the write fails; nil for 10.
        public var maxAttempts: Int?
        /// Headers for the upstream. The gateway accepts only headers that its operator allows.
        public var headers: [String: String]
        /// The upstream endpoint for this write; nil for the entity's ``EntitySync/endpoint``.
        public var endpoint: String?
        /// Whether the write is a conflict if other writers have changed the row since its last pull. If false, the
        /// write overwrites their changes.
        public var isChecked: Bool

        /// Creates options. Every option has a default, so `Write.Options(priority: 10)` is enough to set one option.
        public init(
            priority: Int? = nil,
            dependencies: [UUID] = [],
            orderKey: String? = nil,
            conflictResolution: ConflictResolution? = nil,
            maxAttempts: Int? = nil,
            headers: [String: String] = [:],
            endpoint: String? = nil,
            isChecked: Bool = true
        ) {
            self.priority = priority
            self.dependencies = dependencies
            self.orderKey = orderKey
            self.conflictResolution = conflictResolution
            self.maxAttempts = maxAttempts
            self.headers = headers
            self.endpoint = endpoint
            self.isChecked = isChecked
        }
    }

    /// Creates the entity of a row that the app has just inserted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func create<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.create, record, options)
    }

    /// Updates the entity of a row that the app has just changed.
    ///
    /// The write is a merge patch (RFC 7396) with the columns that differ from the entity that the library has stored.
    /// If no column differs, nothing is sent.
    ///
    /// - Throws: errors of the record's encoding.
    public static func update<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.update, record, options)
    }

    /// Updates the entity of a row that a person has edited since the row was read, for example in a form that was open
    /// for a while.
    ///
    /// Only the person's changes are sent. Changes that other writers made in the meantime stay, and are shown. If the
    /// person and another writer changed the same member, the write is a conflict, subject to ``Options/isChecked``.
    ///
    /// - Parameter original: the record as it was read.
    /// - Throws: errors of the records' encoding.
    public static func update<Record: Syncable>(
        _ record: Record,
        from original: Record,
        options: Options = Options()
    ) throws -> Write {
        try Write(.update, record, from: original, options)
    }

    /// Replaces the entity of a row that the app has just changed. The whole row is sent.
    ///
    /// - Throws: errors of the record's encoding.
    public static func replace<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.replace, record, options)
    }

    /// Deletes the entity of a row that the app has just deleted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func delete<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.delete, record, options)
    }

    /// Deletes the entity of a row that the app has just deleted, by the row's key.
    public static func delete<Record: Syncable>(
        _ type: Record.Type,
        key: some DatabaseValueConvertible,
        options: Options = Options()
    ) -> Write {
        Write(content: .deletion(Record.sync.entityType, key.databaseValue), options: options)
    }

    /// Sends a request to the organization's REST API, once and in order with all other writes.
    ///
    /// The request changes no row on the phone. The phone receives the resulting changes by a pull.
    ///
    /// - Parameters:
    ///   - method: `POST`, `PATCH`, `PUT` or `DELETE`.
    ///   - endpoint: a path that begins with `/`. The path may contain client ids in any place, and `{local_id}`, which
    ///     is replaced by the id of the row with the given `key`.
    ///   - payload: the body, which may contain client ids in any place.
    ///   - type: the record of the entity type to which the request belongs.
    ///   - key: the key of the row that the request is about. A `POST` without a key creates a separate entity.
    public static func request<Record: Syncable>(
        _ method: String,
        _ endpoint: String,
        payload: JSON? = nil,
        of type: Record.Type,
        key: (any DatabaseValueConvertible)? = nil,
        options: Options = Options()
    ) -> Write {
        let request = Request(
            method: method,
            endpoint: endpoint,
            payload: payload,
            entityType: Record.sync.entityType,
            key: key?.databaseValue
        )
        return Write(content: .request(request), options: options)
    }

    /// Creates a write that changes a row's entity, from the values of the row's columns.
    init(_ operation: RowOperation, row values: [String: DatabaseValue], of entityType: String) {
        self.init(content: .record(operation, entityType, values, original: nil), options: Options())
    }

    /// Creates a write that deletes a row's entity, from the row's key.
    init(deletionOf key: DatabaseValue, of entityType: String) {
        self.init(content: .deletion(entityType, key), options: Options())
    }

    /// Creates a write that creates a row's entity, from the values of the row's columns.
    init(row values: [String: DatabaseValue], of entityType: String, _ options: Options) {
        self.init(content: .record(.create, entityType, values, original: nil), options: options)
    }

    /// Returns the row that the write changes; nil for a request, and for a record without a key.
    func name(_ map: EntityMap) -> EntityName? {
        switch content {
        case .record(_, let type, let values, _):
            map[type].flatMap { entity in try? entity.key(of: values) }.map { EntityName(type, $0) }
        case .deletion(let type, let key): map[type]?.key.text(of: key).map { EntityName(type, $0) }
        case .request: nil
        }
    }

    private init(content: Content, options: Options) {
        self.content = content
        self.options = options
    }

    private init<Record: Syncable>(
        _ operation: RowOperation,
        _ record: Record,
        from original: Record? = nil,
        _ options: Options
    ) throws {
        content = .record(
            operation,
            Record.sync.entityType,
            try record.databaseDictionary,
            original: try original?.databaseDictionary
        )
        self.options = options
    }
}
