import Foundation
import Postgres
import SyncModel

/// Columns (push, organization, user, id) of one input to a group's statements.
struct PushColumns {
    private var pushes: [Int32] = []
    private var organizations: [UUID] = []
    private var users: [UUID] = []
    private var ids: [UUID] = []

    var isEmpty: Bool { ids.isEmpty }

    mutating func add(_ push: Int, _ lane: LaneKey, _ id: UUID) {
        pushes.append(Int32(push))
        organizations.append(lane.organization)
        users.append(lane.user)
        ids.append(id)
    }

    var parameters: Parameters {
        var parameters = Parameters()
        parameters.add(pushes)
        parameters.add(organizations)
        parameters.add(users)
        parameters.add(ids)
        return parameters
    }
}
