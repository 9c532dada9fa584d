public import Foundation
public import GRDB

/// A change to be synchronized, for ``SluiceClient/enqueue(_:in:)``.
public struct Write: Sendable {
    enum Content: Sendable {
        /// A change of a record's row, by entity type.
        case record(RowOperation, String, [String: DatabaseValue], original: [String: DatabaseValue]?)
        /// A deletion of a row by its key.
        case deletion(String, DatabaseValue)
        case request(Request)
    }

    /// A request to the organization's REST API that is not a plain change of a row.
    struct Request: Sendable {
        let method: String
        let endpoint: String
        let payload: JSON?
        let entityType: String
        let key: DatabaseValue?
    }

    let content: Content
    var options: Options

    /// The options of any write.
    public struct Options: Sendable {
        /// The priority among writes at the same position of the queue, from 0 to 1,000; nil for the entity's priority.
        public var priority: Int?
        /// Other writes that must take effect before this write.
        ///
        /// A write depends automatically on the entities whose ids it contains.
        public var dependencies: [UUID]
        /// The strategy for a conflict; nil for the entity's strategy.
        public var conflictResolution: ConflictResolution?
        /// The number of attempts to reach the upstream after which the write fails: 1 to 100; nil for 10.
        public var maxAttempts: Int?
        /// Headers for the upstream. The gateway accepts only headers that its operator allows.
        public var headers: [String: String]
        /// The endpoint of the replay, in place of the entity's ``EntitySync/endpoint``.
        public var endpoint: String?
        /// Whether the write conflicts with other writers' changes since the last pull of the row. If false, it
        /// overwrites them.
        public var isChecked: Bool

        /// Creates options; every option has a default: `Write.Options(priority: 10)`.
        public init(
            priority: Int? = nil,
            dependencies: [UUID] = [],
            conflictResolution: ConflictResolution? = nil,
            maxAttempts: Int? = nil,
            headers: [String: String] = [:],
            endpoint: String? = nil,
            isChecked: Bool = true
        ) {
            self.priority = priority
            self.dependencies = dependencies
            self.conflictResolution = conflictResolution
            self.maxAttempts = maxAttempts
            self.headers = headers
            self.endpoint = endpoint
            self.isChecked = isChecked
        }
    }

    /// Creates a row that the app has just inserted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func create<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.create, record, options)
    }

    /// Updates a row that the app has just changed.
    ///
    /// It sends a merge patch (RFC 7396) of the columns that differ from the known entity, or nothing if no column
    /// differs.
    ///
    /// - Throws: errors of the record's encoding.
    public static func update<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.update, record, options)
    }

    /// Updates a row that a person has changed since it was read, for example in a form that was open for a while.
    ///
    /// Only the person's changes are sent. Other writers' changes since then stay, and are shown. A member that both
    /// the person and another writer changed is a conflict, subject to ``Options/isChecked``.
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

    /// Replaces a row that the app has just changed; the whole row is sent.
    ///
    /// - Throws: errors of the record's encoding.
    public static func replace<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.replace, record, options)
    }

    /// Deletes a row that the app has just deleted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func delete<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.delete, record, options)
    }

    /// Deletes a row that the app has just deleted, by its key.
    public static func delete<Record: Syncable>(
        _ type: Record.Type,
        key: some DatabaseValueConvertible,
        options: Options = Options()
    ) -> Write {
        Write(content: .deletion(Record.sync.entityType, key.databaseValue), options: options)
    }

    /// A request to the organization's REST API, sent once, in order with all other writes.
    ///
    /// The request changes no row on the phone. The phone receives the API's changes with a pull.
    ///
    /// - Parameters:
    ///   - method: `POST`, `PATCH`, `PUT` or `DELETE`.
    ///   - endpoint: a path that begins with `/`. It may contain client ids in any place, and `{local_id}` for `key`.
    ///   - payload: the body, which may contain client ids in any place.
    ///   - type: the record whose entity type the request has.
    ///   - key: the row that the request is about. A `POST` without a key creates a separate entity.
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

    /// Creates a change of a row by its columns' values.
    init(_ operation: RowOperation, row values: [String: DatabaseValue], of entityType: String) {
        self.init(content: .record(operation, entityType, values, original: nil), options: Options())
    }

    /// Creates the deletion of a row by its key.
    init(deletionOf key: DatabaseValue, of entityType: String) {
        self.init(content: .deletion(entityType, key), options: Options())
    }

    /// Creates the creation of a row by its columns' values.
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
