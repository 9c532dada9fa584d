public import Foundation
public import GRDB

/// A change to be synchronized, for ``SluiceClient/enqueue(_:in:)``.
public struct Write: Sendable {
    enum Content: Sendable {
        /// Of a record's row, by entity type.
        case record(RowOperation, String, [String: DatabaseValue], original: [String: DatabaseValue]?)
        /// Of a row by its key.
        case deletion(String, DatabaseValue)
        case request(Request)
    }

    /// A request to the organization's REST API that is no plain change of a row.
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
        /// 0 to 1,000, of writes in one position; nil for the entity's.
        public var priority: Int?
        /// Other writes that must have taken effect before.
        ///
        /// A write depends automatically on the entities that it names by id.
        public var dependencies: [UUID]
        /// The strategy for a conflict; nil for the entity's.
        public var conflictResolution: ConflictResolution?
        /// 1 to 100; nil for 10. After so many attempts to reach the upstream the write counts as failed.
        public var maxAttempts: Int?
        /// Headers for the upstream; the gateway accepts those that its operator allows.
        public var headers: [String: String]
        /// Where to replay it, in place of the entity's ``EntitySync/endpoint``.
        public var endpoint: String?
        /// Whether it conflicts with others' writes since the row was last pulled. If false, it overwrites them.
        public var isChecked: Bool

        /// Every option has its default: `Write.Options(priority: 10)`.
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

    /// A row that the app has just inserted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func create<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.create, record, options)
    }

    /// Updates a row that the app has just changed.
    ///
    /// It sends a merge patch (RFC 7396) of the columns that differ from the known entity, and nothing if no column
    /// does.
    ///
    /// - Throws: errors of the record's encoding.
    public static func update<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.update, record, options)
    }

    /// Updates a row that a person has changed since it was read, for example in a form that was open for a while.
    ///
    /// Only the person's changes are sent. Changes that others made since then stay, and are shown. A member that both
    /// changed is a conflict, subject to ``Options/isChecked``.
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

    /// A row that the app has just changed, sent whole.
    ///
    /// - Throws: errors of the record's encoding.
    public static func replace<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.replace, record, options)
    }

    /// A row that the app has just deleted.
    ///
    /// - Throws: errors of the record's encoding.
    public static func delete<Record: Syncable>(_ record: Record, options: Options = Options()) throws -> Write {
        try Write(.delete, record, options)
    }

    /// A row that the app has just deleted, by its key.
    public static func delete<Record: Syncable>(
        _ type: Record.Type,
        key: some DatabaseValueConvertible,
        options: Options = Options()
    ) -> Write {
        Write(content: .deletion(Record.sync.entityType, key.databaseValue), options: options)
    }

    /// A request to the organization's REST API, sent in order with everything else, once.
    ///
    /// It changes no row on the phone: a pull brings the API's changes.
    ///
    /// - Parameters:
    ///   - method: `POST`, `PATCH`, `PUT` or `DELETE`.
    ///   - endpoint: a path that begins with `/`. It may contain client ids in any place, and `{local_id}` for `key`.
    ///   - payload: may contain client ids in any place.
    ///   - type: the record whose entity type the request is of.
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

    /// A change of a row by its columns' values.
    init(_ operation: RowOperation, row values: [String: DatabaseValue], of entityType: String) {
        self.init(content: .record(operation, entityType, values, original: nil), options: Options())
    }

    /// The deletion of a row by its key.
    init(deletionOf key: DatabaseValue, of entityType: String) {
        self.init(content: .deletion(entityType, key), options: Options())
    }

    /// The creation of a row by its columns' values.
    init(row values: [String: DatabaseValue], of entityType: String, _ options: Options) {
        self.init(content: .record(.create, entityType, values, original: nil), options: options)
    }

    /// The row that it is of; nil for a request, and for a record without a key.
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
