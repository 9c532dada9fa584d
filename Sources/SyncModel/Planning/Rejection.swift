package import Foundation

/// What is kept of a refused entry: the same key and number answer the same refusal (product rule 5).
package struct Rejection: Sendable {
    /// The key that the entry came under.
    package var idempotencyKey: UUID
    /// The entry's id, when it could be read.
    package var id: UUID?
    /// The device that sent it.
    package var deviceID: UUID
    /// The number that it was refused under.
    package var sequenceNumber: Int64
    /// Problem object as JSON.
    package var error: [UInt8]

    /// Creates the value.
    package init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}
