import Postgres
import SyncStore

extension StoredTable {
    static let retentionPlaces = StoredTable("retention_places", key: [], purge: .last)
        .naming("shrunk_user", "mapping_user", erase: .last([eraseRetentionPlaces]), merge: .keep)
        .plain("shrunk_until", "shrunk_id", "mapping_client", "mappings_seen_at", "feed_noted_at", "feed_positions")

    static let retentionRuns = StoredTable("retention_runs", key: ["name"], purge: .none)
        .plain("owner", "token", "expires_at", "due_at", "started_at", "finished_at")
        .open("last_report")

    /// Removes a user's id from the positions that retention has stored. After that, retention reads some rows again.
    static let eraseRetentionPlaces = Statement(
        "erase_retention_places",
        ["organization", "users"],
        """
        UPDATE retention_places AS p
        SET mapping_client = CASE WHEN p.mapping_user = ANY (:users::uuid[]) THEN NULL ELSE p.mapping_client END,
            mapping_user = CASE WHEN p.mapping_user = ANY (:users::uuid[]) THEN NULL ELSE p.mapping_user END,
            shrunk_id = CASE WHEN p.shrunk_user = ANY (:users::uuid[]) THEN \(noUser) ELSE p.shrunk_id END,
            shrunk_user = CASE WHEN p.shrunk_user = ANY (:users::uuid[]) THEN \(noUser) ELSE p.shrunk_user END
        WHERE p.organization_id = :organization
        """
    )

    private static let noUser = "'00000000-0000-0000-0000-000000000000'::uuid"
}
