public import Foundation

/// What a rejected entry is answered with of itself: as far as it could be read.
public struct EntryName: Sendable {
    public var id: UUID?
    public var idempotencyKey: UUID?
    public var sequenceNumber: Int64?
    public var entity: EntityName?

    init() {}

    public init(_ entry: PushEntry) {
        id = entry.id
        idempotencyKey = entry.idempotencyKey
        sequenceNumber = entry.sequenceNumber
        entity = entry.mutation?.entity
    }
}
