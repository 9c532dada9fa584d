package import Foundation

/// Which of a user's mappings the answer to a push shows once they are resolved: those of its entities' own client ids,
/// each under its one type, and those that its endpoints, payloads and dependencies name, under any.
package struct TouchedMappings: Sendable {
    /// Names a mapping.
    struct Key: Hashable {
        let clientID: UUID
        let entityType: String
    }

    private var named: Set<UUID> = []
    private var own: Set<Key> = []

    /// Gathers what a push names.
    package init(_ push: PushRequest) {
        for mutation in push.entries.lazy.compactMap(\.mutation) {
            if let localID = mutation.localID { own.insert(Key(clientID: localID, entityType: mutation.entityType)) }
            named.formUnion(mutation.references)
            named.formUnion(mutation.dependencyIDs)
        }
    }

    /// Every client id that such a mapping may have, once each.
    package var clientIDs: [UUID] { Array(named.union(own.map(\.clientID))) }

    /// Whether the answer shows a mapping.
    package func contains(_ mapping: IDMapping) -> Bool {
        named.contains(mapping.clientID)
            || own.contains(Key(clientID: mapping.clientID, entityType: mapping.entityType))
    }
}
