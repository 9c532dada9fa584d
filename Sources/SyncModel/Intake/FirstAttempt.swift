import Foundation

/// The first try of a mutation, as far as a second one is compared with it.
struct FirstAttempt {
    let id: UUID
    let device: UUID
    let operation: Operation
    /// With the server id once it is known.
    let entity: EntityName
    let fingerprint: Fingerprint

    /// A stored first try.
    init(_ record: MutationRecord) {
        id = record.id
        device = record.deviceID
        operation = record.operation
        entity = record.entity
        fingerprint = record.fingerprint
    }

    /// A first try in the same push.
    ///
    /// - Parameter references: device ids in its relations.
    init(_ mutation: Mutation, by device: UUID, _ references: [LocalReference]) {
        id = mutation.id
        self.device = device
        operation = mutation.operation
        entity = mutation.entity
        fingerprint = mutation.fingerprint(noting: references)
    }
}
