public import Foundation

/// The mappings of a user that the answer to a push shows once they are resolved.
///
/// Those of its entities' own client ids, each in its one type, and those that its endpoints, payloads and dependencies
/// name, in any type.
public struct TouchedMappings: Sendable {
    private var named: Set<UUID> = []
    private var own: Set<ClientReference> = []

    public init(_ push: PushRequest) {
        for mutation in push.entries.lazy.compactMap(\.mutation) {
            if let name = mutation.entity.reference { own.insert(name) }
            named.formUnion(mutation.references)
            named.formUnion(mutation.dependencyIDs)
        }
    }

    /// Every client id that such a mapping may have, once each.
    public var clientIDs: [UUID] { Array(named.union(own.map(\.clientID))) }

    public func contains(_ mapping: IDMapping) -> Bool {
        named.contains(mapping.clientID) || own.contains(mapping.reference)
    }
}
