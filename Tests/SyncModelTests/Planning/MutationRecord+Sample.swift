import Foundation

@testable import SyncModel

extension MutationRecord {
    /// A record of an update of a task, which is the lane's first mutation, with changes.
    static func sample(
        _ status: MutationStatus,
        id: UUID = UUID(),
        device: UUID = UUID(),
        at position: Int64 = 1,
        operation: SyncModel.Operation = .update,
        acceptedAt: Timestamp = Timestamp(microseconds: 0),
        fingerprint: Fingerprint = Fingerprint(digest: [], identifiers: []),
        _ change: (inout Parts) -> Void = { _ in }
    ) -> MutationRecord {
        let origin = Origin(
            id: id,
            idempotencyKey: UUID(),
            deviceID: device,
            sequenceNumber: position,
            position: position,
            operation: operation,
            acceptedAt: acceptedAt
        )
        let entity = EntityName(type: "task", client: nil)
        return MutationRecord(Parts(origin, entity: entity, State(status), fingerprint: fingerprint)).with(change)
    }
}
