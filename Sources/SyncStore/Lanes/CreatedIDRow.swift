import Foundation
import Postgres
import SyncModel

/// The server id of an entity created under a device's local id.
struct CreatedIDRow {
    let lane: LaneKey
    /// The UUID that represents the local id.
    let clientID: UUID
    let mutation: UUID
    let serverID: ServerID

    static let columns = Columns<CreatedIDRow>(
        .lane(\.lane),
        .uuid("client_id", \.clientID),
        .uuid("mutation_id", \.mutation),
        .serverID(\.serverID)
    )
}

extension CreatedIDRow {
    /// Nil while the create is not final: an id leads somewhere only then.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        let mutation = result.mutation
        guard result.outcome.status.isFinal, mutation.operation == .create, let serverID = result.outcome.serverID,
            case .number(_, let standIn)? = mutation.entity.client
        else { return nil }
        self.init(lane: lane, clientID: standIn, mutation: mutation.id, serverID: serverID)
    }
}
