import Foundation
import Postgres
import SyncModel

// What nearly every statement begins with.
extension Parameters {
    /// $1: an organization.
    init(of organization: UUID) {
        self.init()
        add(organization)
    }

    /// $1 and $2: a user of an organization.
    init(of lane: LaneKey) {
        self.init(of: lane.organization)
        add(lane.user)
    }

    /// $1 to $3: a device of a user.
    init(of device: DeviceKey) {
        self.init(of: device.lane)
        add(device.id)
    }

    /// $1 to $3: a user's rows by their ids.
    init(of lane: LaneKey, _ ids: [UUID]) {
        self.init(of: lane)
        add(ids)
    }
}
