import Postgres
package import SyncModel
package import SyncStore

/// A source that follows a database's log, as a restored database has it.
package struct RestoredSource: Sendable, Hashable {
    package let key: SourceKey
    package let isEnabled: Bool
    /// The restored position; nil if none was stored when the backup was made.
    package let confirmed: String?
}

extension Administration {
    /// Sources of kind `postgres`. The slot of each is likely ahead of the restored position.
    package func restoredSources() async throws(Problem) -> [RestoredSource] {
        try await rows(Self.sourcesStatement, Parameters(), "list restored sources") { row in
            let key = SourceKey(organization: try row.uuid("organization_id"), name: try row.string("name"))
            let isEnabled = try row.string("status") == "enabled"
            let state = try row.optionalBytes("state").flatMap { ReplicationState($0) }
            return RestoredSource(key: key, isEnabled: isEnabled, confirmed: state?.confirmed)
        }
    }

    /// Sources that read a slot: the slot's log no longer contains the changes confirmed after the backup.
    static let sourcesStatement = Statement(
        "restore_sources",
        """
        SELECT s.organization_id, s.name, s.status, s.state FROM sources s
        WHERE s.kind = 'postgres' ORDER BY s.organization_id, s.name
        """
    )
}
