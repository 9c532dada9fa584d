import Foundation
import Postgres
import SyncModel

/// The outcome of a create's mapping.
struct MappingOutcomeRow {
    let lane: LaneKey
    let clientID: UUID
    let entityType: String
    let outcome: Outcome
    let changePosition: Int64
    /// Whether its error may be stored here unsealed.
    let isPlain: Bool

    /// Nil where the mutation has no mapping.
    ///
    /// Only creates have one, and not those under a local or a global id.
    init?(_ lane: LaneKey, _ result: LaneOutcome, _ state: LaneState, _ seals: SealTable) {
        let mutation = result.mutation
        guard let clientID = mutation.createdClientID else { return nil }
        self.lane = lane
        self.clientID = clientID
        entityType = mutation.entity.type
        outcome = result.outcome
        changePosition = state.changePosition
        isPlain = seals[lane.organization].isPlain
    }

    static let columns = Columns<MappingOutcomeRow>(
        .lane(\.lane),
        .uuid("client_id", \.clientID),
        .text("entity_type", \.entityType),
        // an id counts once the create is final
        .serverID { $0.outcome.status.isFinal ? $0.outcome.serverID : nil },
        .bool("fails") { $0.outcome.status == .failed },
        .int2("tries") { $0.outcome.isFailedTry ? 1 : 0 },
        // an upstream's error is also in the mutation, and sealed there
        .text("last_error") { $0.outcome.status.isFinal || !$0.isPlain ? nil : $0.outcome.lastError },
        .int8("change_position", \.changePosition)
    )
}
