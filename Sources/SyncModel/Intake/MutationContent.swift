import Foundation
import JSONText

/// The members of a mutation while they are read, each nil until it is there.
struct MutationContent {
    var id: UUID?
    var idempotencyKey: UUID?
    var sequenceNumber: Int64?
    var operation: Operation?
    var entityType: String?
    /// A UUID, or a number of the device.
    var localID: JSONValue?
    var serverID: ServerID?
    var endpoint: Endpoint?
    var payload: JSONValue?
    var headers: JSONValue?
    var dependencyIDs: [UUID] = []
    var priority: Int16?
    var maxAttempts: Int16 = 10
    var conflictResolution: ConflictResolution?
    var baseVersion: Int64?
    var createdAt: Timestamp?

    /// The entity; nil until its type is known.
    func entity(on device: UUID) -> EntityName? {
        guard let entityType else { return nil }
        let client =
            if let number = localID?.int64 {
                LocalID(entityType: entityType, number: number).name(on: device)
            } else {
                localID?.uuid.map(ClientName.id)
            }
        return EntityName(type: entityType, client: client, serverID: serverID)
    }

    /// Distinct UUIDs in endpoint and payload, in order of appearance.
    var references: [UUID] {
        let all = (endpoint?.uuids ?? []) + (payload?.uuids ?? [])
        guard all.count > 1 else { return all }
        var seen = Set<UUID>(minimumCapacity: all.count)
        return all.filter { seen.insert($0).inserted }
    }
}
