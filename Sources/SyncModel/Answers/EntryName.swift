package import Foundation

/// What a rejected entry is answered with of itself: as far as it could be read.
package struct EntryName: Sendable {
    package var id: UUID?
    package var idempotencyKey: UUID?
    package var sequenceNumber: Int64?
    package var entity: EntityName?

    init() {}

    package init(_ entry: PushEntry) {
        id = entry.id
        idempotencyKey = entry.idempotencyKey
        sequenceNumber = entry.sequenceNumber
        entity = entry.mutation?.entity
    }
}
