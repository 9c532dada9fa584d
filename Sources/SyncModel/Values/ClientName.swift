public import Foundation
import JSONText

/// What a client calls an entity before the server has given it an id, and beside that: a case an id space. Of `shared`
/// types the client knows the server id only.
public enum ClientName: Sendable, Hashable {
    /// The user's client id, of a `mapped` type.
    case id(UUID)
    /// A number that one device counts, of a `device` type, and the UUID that stands for it (``LocalID/clientID(on:)``).
    case number(Int64, standIn: UUID)

    /// The UUID by which it is looked up, depended on and waited for.
    public var id: UUID {
        switch self {
        case .id(let id): id
        case .number(_, let standIn): standIn
        }
    }

    /// The device's own number.
    public var number: Int64? {
        switch self {
        case .id: nil
        case .number(let number, _): number
        }
    }

    /// What stands for the entity where a server id would, while it has none.
    var asServerID: ServerID {
        switch self {
        case .id(let id): ServerID(id)
        case .number(let number, _): ServerID(number)
        }
    }

    /// As problems name it, of an entity of a type.
    func words(of type: String) -> String {
        switch self {
        case .id(let id): "client id \(id.lowercased)"
        case .number(let number, _): LocalID(entityType: type, number: number).words
        }
    }
}
