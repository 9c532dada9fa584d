public import FoundationEssentials
import JSONText

/// The ids by which a mutation identifies its entity.
public struct EntityName: Sendable, Hashable {
    @Exact public private(set) var type: String
    /// The client's id; nil if the client gave only the server id.
    public let client: ClientName?
    /// The server id; nil while it is unknown.
    public let serverID: ServerID?

    public init(type: String, client: ClientName?, serverID: ServerID? = nil) {
        self.type = type
        self.client = client
        self.serverID = serverID
    }

    public func with(_ serverID: ServerID?) -> EntityName {
        EntityName(type: type, client: client, serverID: serverID)
    }

    /// The client id, or the UUID that represents a device id.
    public var clientID: UUID? { client?.id }

    /// The key of the client's id in mappings.
    public var reference: ClientReference? { client.map { ClientReference(clientID: $0.id, entityType: type) } }

    /// The device id; nil if the client's id is not a device id.
    public var localID: LocalID? { client?.number.map { LocalID(entityType: type, number: $0) } }

    /// The client's id in problem texts.
    var words: String? { client?.words(of: type) }

    /// Whether both names certainly identify the same entity.
    ///
    /// An integer and a string with the same digits are the same id.
    func isSame(as other: EntityName) -> Bool {
        guard type == other.type else { return false }
        if let serverID, serverID.text == other.serverID?.text { return true }
        return clientID != nil && clientID == other.clientID
    }
}

extension LocalID {
    public func name(on device: UUID) -> ClientName { .number(number, standIn: clientID(on: device)) }
}

/// The client's id of an entity, which the client may use before and after the server assigned an id.
///
/// There is a case for each id space except `shared`, whose entities have only a server id on the client.
public enum ClientName: Sendable, Hashable {
    /// The user's client id, for a `mapped` type.
    case id(UUID)
    /// A number from one device's counter, for a `device` type.
    ///
    /// `standIn` is the UUID that represents the number (``LocalID/clientID(on:)``).
    case number(Int64, standIn: UUID)

    /// The UUID for look-ups and dependencies.
    public var id: UUID {
        switch self {
        case .id(let id): id
        case .number(_, let standIn): standIn
        }
    }

    public var number: Int64? {
        switch self {
        case .id: nil
        case .number(let number, _): number
        }
    }

    /// The value that is used instead of the entity's server id until the entity has one.
    var asServerID: ServerID {
        switch self {
        case .id(let id): ServerID(id)
        case .number(let number, _): ServerID(number)
        }
    }

    /// The id in problem texts.
    func words(of type: String) -> String {
        switch self {
        case .id(let id): "client id \(id.lowercased)"
        case .number(let number, _): LocalID(entityType: type, number: number).words
        }
    }
}

/// A client id with the entity type in which it was created, because other types may have the same id.
public struct ClientReference: Sendable, Hashable {
    /// The client id, or the UUID that represents a device id.
    public let clientID: UUID
    @Exact public private(set) var entityType: String

    public init(clientID: UUID, entityType: String) {
        self.clientID = clientID
        self.entityType = entityType
    }
}

/// The client ids in a mutation's content, as determined by its push or by a person's edit.
///
/// They are replaced when the mutation's turn comes. They include the client id of the mutation's entity, unless the
/// mutation creates the entity. All other UUIDs in the content are data.
public struct References: Sendable {
    public let ids: [UUID]
    /// The entity types in which the client ids were created.
    ///
    /// Empty for mutations that were stored without types.
    public let types: [UUID: String]

    /// Creates references from the stored form; empty by default.
    public init(_ ids: [UUID] = [], types: [UUID: String] = [:]) {
        self.ids = ids
        self.types = types
    }

    init(_ references: [ClientReference]) {
        self.init(
            references.map(\.clientID),
            types: Dictionary(references.map { ($0.clientID, $0.entityType) }) { first, _ in first }
        )
    }
}

/// An operation on an entity.
public protocol EntityWrite {
    var operation: Operation { get }
    var entity: EntityName { get }
}

extension EntityWrite {
    /// The client's id of the new entity of a create.
    ///
    /// Nil for another operation, and for a create that has only a server id.
    public var created: ClientReference? { operation == .create ? entity.reference : nil }

    /// The client id by which other devices can identify the new entity of a create.
    ///
    /// Nil for another operation, and for a device id, which has no meaning on other devices.
    public var createdClientID: UUID? {
        guard operation == .create, case .id(let id)? = entity.client else { return nil }
        return id
    }

    /// Whether the entity may have existed before this mutation.
    ///
    /// This is true for every operation except a create that waits for its server id.
    public var namesKnownEntity: Bool { operation != .create || entity.serverID != nil }
}

/// The rule for names of issuers, and for the names that issuers give to users and organizations.
///
/// Such a name is opaque, so it is neither trimmed nor normalized.
public enum ExternalName {
    /// The maximum number of bytes of a name.
    public static let maximumBytes = 255
    /// The maximum number of bytes of an issuer's own name.
    public static let maximumIssuerBytes = 1_000

    /// Whether a text is a valid name.
    ///
    /// A valid name has 1 to ``maximumBytes`` bytes and no control characters.
    public static func isValid(_ text: String) -> Bool {
        (1...maximumBytes).contains(text.utf8.count) && !hasControls(text)
    }

    /// Whether a text can be an issuer's name.
    ///
    /// The empty text represents the issuer without a name.
    public static func isValidIssuer(_ text: String) -> Bool {
        text.utf8.count <= maximumIssuerBytes && !hasControls(text)
    }

    /// Whether a text has control characters.
    public static func hasControls(_ text: String) -> Bool {
        text.unicodeScalars.contains { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) }
    }
}

/// A user's name at an issuer.
public struct Subject: Sendable, Hashable {
    /// The issuer's name, or the name that the operator configured for the issuer.
    public let issuer: ByteExactString
    /// The subject: 1 to 255 bytes, without control characters.
    public let text: ByteExactString

    public init(issuer: ByteExactString, text: ByteExactString) {
        self.issuer = issuer
        self.text = text
    }
}
