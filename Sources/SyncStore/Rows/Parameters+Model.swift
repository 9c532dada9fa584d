package import Foundation
public import Postgres
public import SyncModel

// The first parameters of nearly every statement.
extension Parameters {
    /// An organization; then the values.
    package init<each Value: ParameterValue>(of organization: UUID, _ values: repeat each Value) {
        self.init(organization, repeat each values)
    }

    /// An organization and its user; then the values.
    package init<each Value: ParameterValue>(of lane: LaneKey, _ values: repeat each Value) {
        self.init(lane.organization, lane.user, repeat each values)
    }

    /// An organization, its user and a device; then the values.
    package init<each Value: ParameterValue>(of device: DeviceKey, _ values: repeat each Value) {
        self.init(device.lane.organization, device.lane.user, device.id, repeat each values)
    }
}

extension Timestamp: NullableParameterValue {
    public static func add(_ value: Timestamp?, to parameters: inout Parameters) {
        parameters.add(timestamp: value?.microseconds)
    }
}

extension UserHash: ParameterValue {
    public func add(to parameters: inout Parameters) { parameters.add(bytes: bytes) }
}
