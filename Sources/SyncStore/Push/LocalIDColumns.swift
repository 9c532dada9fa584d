import Foundation
import Postgres
import SyncModel

/// Columns that name ids of devices: whose, and which.
struct LocalIDColumns {
    /// A device of a user.
    struct Device: Hashable, Comparable {
        let lane: LaneKey
        let id: UUID

        static func < (left: Device, right: Device) -> Bool {
            left.lane != right.lane ? left.lane < right.lane : left.id < right.id
        }
    }

    private(set) var pushes: [Int32] = []
    private var lanes: [LaneKey] = []
    private var devices: [UUID] = []
    private var types: [String] = []
    private var numbers: [Int64] = []

    var isEmpty: Bool { pushes.isEmpty }

    mutating func add(_ push: Int, _ device: Device, _ id: LocalID) {
        pushes.append(Int32(push))
        lanes.append(device.lane)
        devices.append(device.id)
        types.append(id.entityType)
        numbers.append(id.number)
    }

    /// The push that asks, organization, user, device, type and number.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.add(pushes)
        parameters.add(lanes.map(\.organization))
        parameters.add(lanes.map(\.user))
        parameters.add(devices)
        parameters.add(types)
        parameters.add(numbers)
        return parameters
    }
}
