import Postgres
package import SyncModel
import SyncStore

/// An upstream as it is stored.
package struct UpstreamRow: Sendable {
    package let settings: UpstreamSettings
    package let updatedAt: Timestamp

    init(_ settings: UpstreamSettings, updatedAt: Timestamp) {
        self.settings = settings
        self.updatedAt = updatedAt
    }

    /// Reads ``UpstreamSettingsRow``, followed by the time of its last change.
    init(_ row: inout RowReader, _ seal: Seal) throws {
        settings = try UpstreamSettingsRow.read(&row, seal)
        updatedAt = try row.moment("updated_at")
    }
}
