public import FoundationEssentials
import JSONText

/// The ids with which a mutation identifies its entity.
public struct EntityName: Sendable, Hashable {
    @Exact public private(set) var type: String
    /// The client's id; nil if the client gave only the server id.
    public let client: ClientName?
    /// The server id; nil while the server id is unknown.
    public let serverID: ServerID?

    public init(type: String, client: ClientName?, serverID: ServerID? = nil) {
        self.type = type
        self.client = client
        self.serverID = serverID
    }

    public func with(_ serverID: ServerID?) -> EntityName {
        EntityName(type: type, client: client, serverID: serverID)
    }

    /// The entity's client id, or the UUID that represents its local id.
    public var clientID: UUID? { client?.id }

    /// The key of the client's id in the mappings.
    public var reference: ClientReference? { client.map { ClientReference(clientID: $0.id, entityType: type) } }

    /// The local id; nil if the client's id is not a local id.
    public var localID: LocalID? { client?.number.map { LocalID(entityType: type, number: $0) } }

    /// The client's id in problem texts.
    var words: String? { client?.words(of: type) }

    /// Whether it is certain that both names identify the same entity.
    ///
    /// An integer and a string with the same digits are equal ids.
    func isSame(as other: EntityName) -> Bool {
        guard type == other.type else { return false }
        if let serverID, serverID.text == other.serverID?.text { return true }
        return clientID != nil && clientID == other.clientID
    }
}

extension LocalID {
    public func name(on device: UUID) -> ClientName { .number(number, standIn: clientID(on: device)) }
}

/// The client's id of an entity. The client may use this id both before and after the server assigns an id.
///
/// There is a case for each id space except `shared`. In `shared`, the client uses only the server id.
public enum ClientName: Sendable, Hashable {
    /// The user's client id, for a `mapped` type.
    case id(UUID)
    /// A local id from the device's counter, for a `device` type.
    ///
    /// The associated value `standIn` is the UUID that represents the number (``LocalID/clientID(on:)``).
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

    /// The value that is used instead of the entity's server id as long as the entity has no server id.
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

/// A client id with the entity type in which it was created.
///
/// The entity type is necessary because a client id may occur in several types.
public struct ClientReference: Sendable, Hashable {
    /// The entity's client id, or the UUID that represents its local id.
    public let clientID: UUID
    @Exact public private(set) var entityType: String

    public init(clientID: UUID, entityType: String) {
        self.clientID = clientID
        self.entityType = entityType
    }
}

/// The client ids in a mutation's content, as they were determined in its push or in a person's edit.
///
/// These client ids are replaced by server ids when the mutation runs. If the mutation does not create its entity, the
/// entity's client id is included. All other UUIDs in the content are data.
public struct References: Sendable {
    public let ids: [UUID]
    /// The entity types in which the client ids were created.
    ///
    /// Empty for mutations that were stored without types.
    public let types: [UUID: String]

    /// Creates references from their stored form.
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
    /// Nil for other operations, and for a create with only a server id.
    public var created: ClientReference? { operation == .create ? entity.reference : nil }

    /// The client id with which other devices can identify the new entity of a create.
    ///
    /// Nil for other operations, and for a local id, because a local id has no meaning on other devices.
    public var createdClientID: UUID? {
        guard operation == .create, case .id(let id)? = entity.client else { return nil }
        return id
    }

    /// Whether the entity may have existed before this mutation.
    ///
    /// True for every operation, except for a create without a server id.
    public var namesKnownEntity: Bool { operation != .create || entity.serverID != nil }
}

/// The rules for the names of issuers, and for the names that issuers give to users and organizations.
///
/// These names are neither trimmed nor normalized, because they are opaque.
public enum ExternalName {
    /// The maximum number of bytes of a name.
    public static let maximumBytes = 255
    /// The maximum number of bytes of the name of an issuer.
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
    /// The subject, which has 1 to 255 bytes and no control characters.
    public let text: ByteExactString

    public init(issuer: ByteExactString, text: ByteExactString) {
        self.issuer = issuer
        self.text = text
    }
}
