import Foundation

extension LaneState {
    /// Counts a mutation's move from one status to another, and lifts the halt that it was the reason for.
    mutating func count(
        _ id: UUID,
        position: Int64,
        acceptedAt: Timestamp,
        from old: MutationStatus,
        to new: MutationStatus
    ) {
        if old.isQueued, !new.isQueued {
            queuedCount -= 1
            if queuedCount == 0 { queuedSince = nil }
        } else if !old.isQueued, new.isQueued {
            enqueue(position: position, acceptedAt: acceptedAt)
        }
        if !old.isFinal, new.isFinal { openCount -= 1 }
        if haltedBy == id, new != .failed, new != .conflict { haltedBy = nil }
    }
}
