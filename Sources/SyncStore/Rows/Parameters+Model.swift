package import Foundation
package import Postgres
package import SyncModel

// The first parameters of nearly every statement.
extension Parameters {
    /// $1: an organization.
    package init(of organization: UUID) {
        self.init()
        add(organization)
    }

    /// $1 and $2: a user of an organization.
    package init(of lane: LaneKey) {
        self.init(of: lane.organization)
        add(lane.user)
    }

    /// $1 to $3: a device of a user.
    package init(of device: DeviceKey) {
        self.init(of: device.lane)
        add(device.id)
    }

    /// $1 to $3: a user's rows by their ids.
    package init(of lane: LaneKey, _ ids: [UUID]) {
        self.init(of: lane)
        add(ids)
    }
}
