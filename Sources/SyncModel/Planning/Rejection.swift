public import Foundation

/// What is kept of a refused entry: the same key and number answer the same refusal (product rule 5).
public struct Rejection: Sendable {
    /// The key that the entry came under.
    public var idempotencyKey: UUID
    /// The entry's id, when it could be read.
    public var id: UUID?
    /// The device that sent it.
    public var deviceID: UUID
    /// The number that it was refused under.
    public var sequenceNumber: Int64
    /// Problem object as JSON.
    public var error: [UInt8]

    /// Creates the value.
    public init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}
