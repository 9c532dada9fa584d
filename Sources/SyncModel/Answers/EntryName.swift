public import Foundation

/// The identifiers of a rejected entry, as far as it could be read.
///
/// The answer repeats them.
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
