package import Foundation
package import Postgres
package import SyncModel

package struct DeviceKey: Hashable, Comparable {
    package let lane: LaneKey
    package let id: UUID

    package static func < (left: DeviceKey, right: DeviceKey) -> Bool {
        left.lane != right.lane ? left.lane < right.lane : left.id < right.id
    }
}

extension Columns {
    /// `organization_id`, `user_id` and `device_id`.
    package static func device(_ value: @escaping @Sendable (Row) -> DeviceKey) -> Self {
        Self(.lane { value($0).lane }, .uuid("device_id") { value($0).id })
    }

    /// `entity_type` and `local_id`.
    package static func localID(_ value: @escaping @Sendable (Row) -> LocalID) -> Self {
        Self(.text("entity_type") { value($0).entityType }, .int8("local_id") { value($0).number })
    }
}

extension Columns<LocalID> {
    /// Local ids of one device.
    package static let localIDs = Columns.localID { $0 }
}

extension RowReader {
    /// Reads `entity_type` and `local_id`.
    package mutating func localID() throws(PostgresError) -> LocalID {
        LocalID(entityType: try string("entity_type"), number: try int64("local_id"))
    }
}
