public import Foundation

/// The device ids in a push: in relations, and of the entities that it writes.
public struct PushLocalIDs: Sendable {
    /// Ids that the relations of one push may hold: bounds the size of one look-up.
    public static let limit = 20_000

    /// The references of an entry, by the entry's index.
    ///
    /// Entries without references are left out.
    private var references: [Int: [LocalReference]] = [:]
    /// Types of the entries whose relations may hold device ids, by the entry's index.
    private var types: [Int: EntityType] = [:]
    /// Entries that exceed ``limit`` together with the entries before them.
    private(set) var crowded: Set<Int> = []
    /// Every device id in the push, by the client id that represents it.
    ///
    /// Includes those of creates.
    public private(set) var named: [UUID: LocalID] = [:]
    /// The device ids of creates.
    ///
    /// The device did not apply a pull that assigned one of these ids.
    public private(set) var created: Set<UUID> = []

    /// A push without device ids.
    public init() {}

    public init(_ push: PushRequest, type: (String) -> EntityType?) {
        var room = PushLocalIDs.limit
        for entry in push.entries {
            guard let mutation = entry.mutation else { continue }
            if let id = mutation.entity.localID, let standIn = mutation.entity.clientID {
                named[standIn] = id
                if mutation.operation == .create { created.insert(standIn) }
            }
            guard let type = type(mutation.entity.type), type.holdsLocalIDs else { continue }
            types[entry.index] = type
            let found = type.localReferences(in: mutation.payload, on: push.deviceID)
            guard !found.isEmpty else { continue }
            // an entry that holds too many by itself is refused for that
            guard found.count <= LocalReference.limit else { continue }
            guard found.count <= room else {
                crowded.insert(entry.index)
                continue
            }
            room -= found.count
            references[entry.index] = found
            for reference in found { named[reference.clientID] = reference.id }
        }
    }

    public func references(of index: Int) -> [LocalReference] {
        references.isEmpty ? [] : references[index] ?? []
    }

    /// The type of an entry's entity, where its payloads may hold device ids.
    func type(of index: Int) -> EntityType? {
        types.isEmpty ? nil : types[index]
    }
}
