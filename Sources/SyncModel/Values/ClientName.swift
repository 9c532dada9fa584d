public import Foundation
import JSONText

/// The client's name of an entity, before and after the server assigned an id.
///
/// There is a case for each id space. Of entities of `shared` types the client has the server id only.
public enum ClientName: Sendable, Hashable {
    /// The user's client id, of a `mapped` type.
    case id(UUID)
    /// A number from one device's counter, of a `device` type.
    ///
    /// It has the UUID that represents it (``LocalID/clientID(on:)``).
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

    /// Used instead of the entity's server id until it has one.
    var asServerID: ServerID {
        switch self {
        case .id(let id): ServerID(id)
        case .number(let number, _): ServerID(number)
        }
    }

    /// The name in problems.
    func words(of type: String) -> String {
        switch self {
        case .id(let id): "client id \(id.lowercased)"
        case .number(let number, _): LocalID(entityType: type, number: number).words
        }
    }
}
