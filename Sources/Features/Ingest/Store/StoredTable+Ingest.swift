import Postgres
import SyncModel
import SyncStore

extension StoredTable {
    static let serviceTokens = StoredTable("service_tokens", key: ["id"], purge: .last, isShown: true)
        .plain("source", "created_at", "last_used_at", "revoked_at")
        .open("secret_hash")

    static let sources = StoredTable("sources", key: ["name"], purge: .last, isShown: true)
        .sealed(
            .settings([
                SealedSetting("secret", isText: true) { .source(.secret, try $0.read("name")) },
                SealedSetting("previous_secret", isText: true) {
                    .source(.previousSecret, try $0.read("name"))
                },
            ])
        )
        .plain(
            "kind",
            "status",
            "previous_until",
            "next_run_at",
            "failure_count",
            "failing_since",
            "last_error",
            "last_success_at",
            "last_event_at",
            "lease_token",
            "leased_until",
            "created_at",
            "updated_at"
        )
        .open("settings", "state")
}
