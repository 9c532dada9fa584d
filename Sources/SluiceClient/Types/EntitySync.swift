/// How one table of the app and one entity type of the gateway belong together.
public struct EntitySync: Sendable {
    /// Whether a row's key may change once the server has given the entity its permanent id.
    public enum Keys: Sendable {
        /// The key that the app gave a row never changes, and neither do references to it: navigation, foreign keys,
        /// files. The library translates it in requests and responses. See ``SluiceClient/serverID(of:key:in:)``.
        case stable
        /// The key becomes the server id, in one transaction with every reference to it that is declared.
        ///
        /// The key's column must be able to hold the ids that the server gives.
        case rewritten
    }

    /// Who makes the type's ids, as it is registered at the gateway.
    public enum IDSpace: Sendable {
        /// The phone makes a UUID, the server another id.
        case mapped
        /// Each device counts its own 64-bit integers: a table with `INTEGER PRIMARY KEY AUTOINCREMENT`.
        case device
        /// One id for all, made by the app: a UUID or a 64-bit integer.
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
    /// Who makes ids, as it is registered at the gateway.
    public let idSpace: IDSpace
    /// Whether a row's key may change.
    public let keys: Keys
    /// Of a type that is forwarded to an upstream, where: `/visits`.
    ///
    /// Creates go to it, everything else to `/visits/{local_id}`. Nil for types of the gateway's built-in store.
    public let endpoint: String?
    /// 0 to 1,000; nil for the type's own.
    public let priority: Int?
    /// What is done about a conflict; nil for the organization's setting.
    public var conflictResolution: ConflictResolution?

    /// - Parameters:
    ///   - columns: every column that is synchronized but the key.
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
    /// Where a write of a row is replayed; nil for types of the built-in store.
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
    /// The write has its way; a create waits for a person all the same.
    case clientWins = "client_wins"
}

/// The column that holds a row's key, and how.
public struct EntityKey: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        case uuid(UUIDStorage)
        case integer
        case text
    }

    /// The column's name.
    public let column: String
    let kind: Kind

    /// A UUID, stored as GRDB stores it by default: 16 bytes.
    public static func uuid(_ column: String, stored storage: UUIDStorage = .bytes) -> EntityKey {
        EntityKey(column: column, kind: .uuid(storage))
    }

    /// A 64-bit integer: the key of types with device ids.
    public static func integer(_ column: String) -> EntityKey { EntityKey(column: column, kind: .integer) }

    /// A text: a lower-case UUID if the phone makes the key, any text of the server if keys are
    /// ``EntitySync/Keys/rewritten``.
    ///
    /// UUIDs in upper case, as `uuidString` has them, are `.uuid("id", stored: .uppercaseText)`: as texts they would be
    /// in lower case on the next phone, and are refused.
    public static func text(_ column: String) -> EntityKey { EntityKey(column: column, kind: .text) }
}

/// The format of a UUID in a column.
public enum UUIDStorage: Sendable, Hashable {
    /// 16 bytes: what GRDB makes of a `UUID`.
    case bytes
    /// A text of 36 characters: `DatabaseUUIDEncodingStrategy.lowercaseString` and `uppercaseString`.
    case lowercaseText, uppercaseText
}
