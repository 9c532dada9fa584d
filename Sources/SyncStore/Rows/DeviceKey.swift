package import Foundation
package import Postgres
package import SyncModel

/// A device of a user.
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

    /// `entity_type` and `local_id`, of an id that a device counts.
    package static func localID(_ value: @escaping @Sendable (Row) -> LocalID) -> Self {
        Self(.text("entity_type") { value($0).entityType }, .int8("local_id") { value($0).number })
    }
}

extension Columns<LocalID> {
    /// Ids that one device counts.
    package static let localIDs = Columns.localID { $0 }
}

extension RowReader {
    /// Reads `entity_type` and `local_id`, of an id that a device counts.
    package mutating func localID() throws(PostgresError) -> LocalID {
        LocalID(entityType: try string("entity_type"), number: try int64("local_id"))
    }
}
