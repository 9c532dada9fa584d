public import Foundation

/// What a push names by its device's own ids, in relations and as the entities that it writes.
public struct PushLocalIDs: Sendable {
    /// Ids that the relations of one push may hold: bounds what has to be looked up at a time.
    public static let limit = 20_000

    /// What stands in the relations of an entry, by the entry's index; entries that have none are left out.
    private var references: [Int: [LocalReference]] = [:]
    /// Types of the entries whose relations may hold such ids, by the entry's index.
    private var types: [Int: EntityType] = [:]
    /// Entries whose relations hold more than may be looked up.
    private(set) var crowded: Set<Int> = []
    /// Every id of the device that the push names, by what stands for it; those of creates too.
    public private(set) var named: [UUID: LocalID] = [:]
    /// Those of creates: whatever a pull assigned under such an id was not applied by the device.
    public private(set) var created: Set<UUID> = []

    /// What a push names that holds no such id.
    public init() {}

    /// Reads a push.
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
            // what holds too many by itself is refused for that
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

    /// What stands in the relations of an entry.
    public func references(of index: Int) -> [LocalReference] {
        references.isEmpty ? [] : references[index] ?? []
    }

    /// The type of an entry's entity, where its payloads may hold ids of the device.
    func type(of index: Int) -> EntityType? {
        types.isEmpty ? nil : types[index]
    }
}
