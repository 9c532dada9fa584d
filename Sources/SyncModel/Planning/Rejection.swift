public import Foundation

/// The record of a refused entry.
///
/// The same key and number get the same refusal (product rule 5).
public struct Rejection: Sendable {
    public var idempotencyKey: UUID
    /// Nil when it could not be read.
    public var id: UUID?
    public var deviceID: UUID
    public var sequenceNumber: Int64
    /// A problem object as JSON.
    public var error: [UInt8]

    public init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}
