import Foundation
import Postgres
import SyncModel

/// What was created under a device's own id.
struct CreatedIDRow {
    let lane: LaneKey
    /// What stands for the device's own id.
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
    /// An id leads somewhere once its create is final.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        let mutation = result.mutation
        guard result.outcome.status.isFinal, mutation.operation == .create, let serverID = result.outcome.serverID,
            case .number(_, let standIn)? = mutation.entity.client
        else { return nil }
        self.init(lane: lane, clientID: standIn, mutation: mutation.id, serverID: serverID)
    }
}
