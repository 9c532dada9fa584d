/// The mapping of one table of the app to one entity type of the gateway.
public struct EntitySync: Sendable {
    /// Whether a row's key may change once the server has given the entity its permanent id.
    public enum Keys: Sendable {
        /// The key that the app has given to a row never changes. References to the key in the app's navigation,
        /// foreign keys and files stay valid. In requests and responses, the library translates the key. See
        /// ``SluiceClient/serverID(of:key:in:)``.
        case stable
        /// The key is replaced by the server id, in one transaction with every declared reference to the row.
        ///
        /// The key's column must be able to hold the ids that the server assigns.
        case rewritten
    }

    /// The kind of the type's ids, as registered at the gateway.
    public enum IDSpace: Sendable {
        /// The phone generates a UUID, and the server generates another id.
        case mapped
        /// Each device counts its own 64-bit integers, in a table with `INTEGER PRIMARY KEY AUTOINCREMENT`.
        case device
        /// The app generates an id that is the same on all devices and at the server: a UUID or a 64-bit integer.
        case shared
    }

    /// The entity type's name at the gateway: `[a-z][a-z0-9_-]{0,63}`.
    public let entityType: String
    /// The app's table.
    public let table: String
    /// The column that holds a row's key.
    public let key: EntityKey
    /// The columns that are synchronized, without the key.
    public let columns: [SyncedColumn]
    /// The kind of the type's ids, as registered at the gateway.
    public let idSpace: IDSpace
    /// Whether a row's key may change.
    public let keys: Keys
    /// The endpoint of a type that is forwarded to an upstream, such as `/visits`.
    ///
    /// Creates are sent to the endpoint itself, and all other writes to `/visits/{local_id}`. Nil for types of the
    /// gateway's built-in store.
    public let endpoint: String?
    /// The priority of this type's writes, from 0 to 1,000; nil for the type's default priority at the gateway.
    public let priority: Int?
    /// The strategy for a conflict; nil for the organization's setting.
    public var conflictResolution: ConflictResolution?

    /// - Parameters:
    ///   - columns: every synchronized column except the key.
    ///   - endpoint: required for types that the gateway forwards to an upstream.
    public init(
        _ entityType: String,
        table: String,
        key: EntityKey,
        columns: [SyncedColumn],
        idSpace: IDSpace = .mapped,
        keys: Keys = .stable,
        endpoint: String? = nil,
        priority: Int? = nil
    ) {
        self.entityType = entityType
        self.table = table
        self.key = key
        self.columns = columns
        self.idSpace = idSpace
        self.keys = keys
        self.endpoint = endpoint
        self.priority = priority
    }
}

extension EntitySync {
    /// Returns the endpoint to which a write of a row is replayed; nil for types of the built-in store.
    func endpoint(of operation: RowOperation) -> String? {
        endpoint.map { operation == .create ? $0 : $0 + "/{local_id}" }
    }
}

/// The strategy for a write that conflicts with another writer's change.
public enum ConflictResolution: String, Sendable {
    /// A person decides: ``SluiceClient/conflicts``.
    case manual
    /// The write is discarded, and the server's entity stays.
    case serverWins = "server_wins"
    /// The write overrides the server's entity. However, a create in conflict still waits for a person.
    case clientWins = "client_wins"
}

/// The column that holds a row's key, and the key's format.
public struct EntityKey: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        case uuid(UUIDStorage)
        case integer
        case text
    }

    /// The column's name.
    public let column: String
    let kind: Kind

    /// A UUID. By default it is stored as 16 bytes, which is the default of GRDB.
    public static func uuid(_ column: String, stored storage: UUIDStorage = .bytes) -> EntityKey {
        EntityKey(column: column, kind: .uuid(storage))
    }

    /// A 64-bit integer, as for types with local ids.
    public static func integer(_ column: String) -> EntityKey { EntityKey(column: column, kind: .integer) }

    /// A text. If the phone generates the key, the text must be a lower-case UUID. If keys are
    /// ``EntitySync/Keys/rewritten``, the key becomes the server's id, which can be any text.
    ///
    /// For UUIDs in upper case, which is the format of `uuidString`, use `.uuid("id", stored: .uppercaseText)`. Text
    /// keys in upper case are refused, because the same key would be in lower case on another phone.
    public static func text(_ column: String) -> EntityKey { EntityKey(column: column, kind: .text) }
}

/// The format of a UUID in a column.
public enum UUIDStorage: Sendable, Hashable {
    /// 16 bytes, the format in which GRDB stores a `UUID`.
    case bytes
    /// A text of 36 characters: `DatabaseUUIDEncodingStrategy.lowercaseString` and `uppercaseString`.
    case lowercaseText, uppercaseText
}
