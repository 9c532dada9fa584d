import Postgres
import SyncModel

extension StoredTable {
    /// The engine's tables, in the order in which jobs process them.
    ///
    /// Lanes come first, because their rows are the locks of all writers. Devices come before the ids that pulls
    /// assigned to them, because a pull locks the device's row. Keys of sealed values come last.
    package static let engine = ofUsers + ofEvents + ofOrganizations

    private static let ofUsers = [
        StoredTable("lanes", key: ["user_id"])
            .owned(by: "user_id", erase: .withLane, merge: .step)
            .plain(
                "next_position",
                "change_position",
                "queued_count",
                "open_count",
                "halted_by",
                "ready_at",
                "lease_owner",
                "lease_token",
                "lease_step",
                "in_flight_id",
                "head_position",
                "queued_since"
            ),
        StoredTable("users", key: ["user_id"], isShown: true)
            .owned(by: "user_id", erase: .withLane, merge: .adopt(where: UserMoves.isNotProvisioned))
            .exported(
                .lines(
                    "user",
                    by: [("user_id", "uuid")],
                    [ExportedColumn("user_id", as: "id"), ExportedColumn("created_at", as: "first_seen_at")]
                )
            ),
        StoredTable("user_subjects", key: ["issuer", "subject"], isShown: true)
            .owned(
                by: "user_id",
                erase: .batches(UserMoves.eraseSubjects, keep: UserMoves.keepSubjects),
                merge: .keep
            )
            .exported(
                .lines(
                    "subject",
                    by: [("issuer", "text"), ("subject", "text")],
                    ["issuer", "subject", ExportedColumn("created_at", as: "first_seen_at")]
                )
            ),
        StoredTable("user_joins", key: ["user_id"], purge: .last)
            .owned(by: "into_id", naming: ["user_id"], erase: .last([UserMoves.eraseJoins]), merge: .step)
            .exported(
                .lines(
                    "joined_user",
                    by: [("user_id", "uuid")],
                    [
                        ExportedColumn("user_id", as: "user"), ExportedColumn("into_id", as: "into"), "started_at",
                        "finished_at",
                    ]
                )
            )
            .plain("closed_until", "feed_end"),
        StoredTable("devices", key: ["user_id", "device_id"], isShown: true)
            .owned(
                by: "user_id",
                erase: .deleteKeeping(hashOf: "device_id"),
                merge: .rename(
                    Moving(isCounted: false, collision: Collision("a device", rule: "join_devices_collide"))
                )
            )
            .exported(
                .lines(
                    "device",
                    by: [("device_id", "uuid")],
                    ["device_id", "accepted_sequence", "created_at", "last_seen_at"]
                )
            )
            .open("stray_ids"),
        StoredTable("mutation_quotas", key: ["user_id"])
            .owned(by: "user_id", erase: .withLane, merge: .adopt())
            .exported(.lines("quota", by: [("user_id", "uuid")], ["missing", .time(named: "as_of")])),
        mutations,
        StoredTable("attempts", key: ["user_id", "mutation_id", "slot"], isShown: true)
            .owned(by: "user_id", erase: .delete, merge: .rename(.dependent))
            .exported(
                .lines(
                    "attempt",
                    by: [("mutation_id", "uuid"), ("slot", "smallint")],
                    [
                        "mutation_id", "ordinal", "revision", "number", "sent_at", "duration_ms", "status", "error",
                        "outcome",
                    ]
                )
            )
            .aging(.steps([.records])),
        StoredTable("rejections", key: ["user_id", "idempotency_key"], isShown: true)
            .owned(
                by: "user_id",
                erase: .deleteKeeping(hashOf: "idempotency_key"),
                // no collision to report here: a merge compares the keys of both tables together, because keys of
                // rejections can also collide with keys of mutations
                merge: .rename(Moving(collision: nil))
            )
            .exported(
                .lines(
                    "rejection",
                    by: [("idempotency_key", "uuid")],
                    page: 100,
                    ["idempotency_key", "id", "device_id", "sequence_number", "rejected_at"]
                )
            )
            .sealed(.lane([SealedColumn("error") { .rejection(user: $0, key: $1) }]))
            .aging(.deleted(by: "rejected_at", as: .rejections)),
        StoredTable("id_mappings", key: ["user_id", "client_id", "entity_type"], isShown: true)
            .owned(
                by: "user_id",
                erase: .delete,
                merge: .update(
                    UserMoves.mergeMappings,
                    [.changes, .now],
                    Moving(collision: Collision("a client id"))
                )
            )
            .exported(
                .lines(
                    "id_mapping",
                    by: [("client_id", "uuid"), ("entity_type", "text")],
                    [
                        "client_id", "entity_type", .id(named: "server_id"), "status", "mutation_id", "last_error",
                        "created_at", "resolved_at", "last_used_at",
                    ]
                )
            )
            .plain("server_id_is_integer", "change_position", "retry_count")
            .aging(.steps([.mappings, .tombstones])),
        StoredTable("local_ids", key: ["user_id", "device_id", "entity_type", "local_id"], isShown: true)
            // no collision to report here: local ids collide only if the ids of their devices collide
            .owned(by: "user_id", erase: .delete, merge: .rename(Moving(collision: nil)))
            .exported(
                .lines(
                    "local_id",
                    by: [("device_id", "uuid"), ("entity_type", "text"), ("local_id", "bigint")],
                    [
                        "device_id", "entity_type", "local_id",
                        ExportedColumn(
                            "server_id",
                            ExportedColumn.id("coalesce(x.server_id, x.same_as)", "x.server_id_is_integer")
                        ),
                        "mutation_id",
                    ]
                )
            )
            .plain("server_id_is_integer", "same_as", "client_id")
            .aging(.steps([.tombstones])),
        StoredTable("local_id_pages", key: ["user_id", "device_id", "page"])
            .owned(by: "user_id", erase: .delete, merge: .rename(.dependent))
            .exported(
                .lines(
                    "local_id_page",
                    by: [("device_id", "uuid"), ("page", "bigint")],
                    page: 25,
                    [
                        "device_id", "page",
                        ExportedColumn(
                            "local_ids",
                            """
                            (SELECT coalesce(json_agg(json_build_object('entity_type', p.entity_type, 'local_id', p.local_id,
                                    'server_id', \(ExportedColumn.id("p.id", "p.is_integer"))) ORDER BY p.place), '[]')
                                FROM unnest(x.entity_types, x.local_ids, x.server_ids, x.are_integers)
                                    WITH ORDINALITY AS p (entity_type, local_id, id, is_integer, place))
                            """
                        ),
                    ]
                )
            )
            .plain("since_page", "entity_types", "server_ids", "are_integers", "is_superseded")
            .open("counters"),
        StoredTable("entities", key: ["entity_type", "id"], isShown: true)
            .naming("owner_id", "updated_by", erase: .step, merge: .step)
            .exported(
                .step(columns: [
                    "version", ExportedColumn("is_deleted", as: "deleted"), "owner_id", "client_id", "updated_by",
                    "updated_on", "created_at",
                    "updated_at", "etag",
                ])
            )
            .sealed(.documents(.entities))
            .plain(
                "id_is_integer",
                "feed_position",
                "run_base",
                "source_version",
                "source_at",
                "source_at_fraction",
                "channels"
            )
            .aging(.steps([.tombstones])),
        StoredTable("channel_grants", key: ["user_id", "channel", "source", "since"], isShown: true)
            .owned(
                by: "user_id",
                erase: .delete,
                merge: .update(UserMoves.mergeGrants, [], Moving(isCounted: false, collision: nil))
            )
            .exported(
                .lines(
                    "channel_grant",
                    by: [("channel", "uuid"), ("source", "text"), ("since", "bigint")],
                    ["name", "role", "source", "since", "until"]
                )
            )
            .plain("changed_at")
            .aging(.steps([.channels])),
        StoredTable("token_channels", key: ["user_id", "source"])
            // the sources of two users never collide, because the source of a grant names its user
            .owned(by: "user_id", erase: .delete, merge: .rename(.dependent))
            .plain("issued_at", "digest"),
        StoredTable("entity_channels", key: ["channel", "changed_at"]).plain("joined_at"),
        StoredTable("ended_stays", key: ["channel", "left_at"])
            .plain("joined_at", "entity_type", "id", "id_is_integer")
            .aging(.steps([.channels])),
        StoredTable("entity_references", key: ["to_type", "to_id", "entity_type", "id", "member"])
            .aging(.steps([.tombstones])),
    ]

    private static let ofEvents = [
        StoredTable("parked_events", key: ["source", "event_id"], isShown: true)
            .naming("owner_id", erase: .scan(.parkedEvents, delete: UserMoves.eraseParkedEvents), merge: .keep)
            .sealed(.documents(.parkedEvents))
            .plain(
                "entity_type",
                "id",
                "id_is_integer",
                "version",
                "occurred_at",
                "operation",
                "causing_key",
                "received_at",
                "look_at",
                "place",
                "occurred_at_fraction"
            ),
        StoredTable("ingested_events", key: ["source", "event_id"], isShown: true)
            .plain("result", "received_at")
            .aging(.pruned),
        StoredTable("sent_requests", key: ["idempotency_key"], isShown: true)
            .plain("entity_type", "server_id", "sent_at", "answered_at", "version", "is_used")
            .open("content")
            .aging(.pruned),
    ]

    private static let ofOrganizations = [
        StoredTable("user_keys", key: ["made_for"])
            .owned(by: "user_id", naming: ["made_for"], erase: .step, merge: .step)
            .plain("master_key", "created_at")
            .open("wrapped_key"),
        StoredTable("audit", key: ["id"], purge: .keep(AuditStatements.purge))
            .naming(
                "user_id",
                "into_id",
                erase: .last([AuditStatements.erase, AuditStatements.eraseInto]),
                merge: .keep
            )
            .plain("at", "actor", "scope", "action", "reason", "request_id")
            .open("target", "user_hash", "into_hash", "outcome")
            .aging(.steps([.audit])),
        StoredTable("ended_sessions", key: ["digest"], purge: .none).open("digest").plain("ends_at"),
        StoredTable("gateways", key: ["id"], purge: .none).plain("seen_at", "newest_migration"),
        StoredTable("feeds", key: [], purge: .last).plain("last_position", "horizon", "epoch"),
        StoredTable("entity_types", key: ["name"], purge: .last, isShown: true)
            .plain(
                "id_space",
                "visibility",
                "default_priority",
                "is_in_use",
                "is_forwarded",
                "on_erase",
                "former_visibility",
                "check_channels"
            )
            .open("relations", "on_delete", "routes", "channels", "grants"),
        StoredTable("request_quotas", key: [], purge: .last).plain("missing", "as_of"),
        StoredTable("external_ids", key: ["issuer", "external_id"], purge: .last).plain("created_at"),
        StoredTable("upstreams", key: [], purge: .last)
            .sealed(
                .settings([
                    SealedSetting("credential") { _ in .upstream(.credential) },
                    SealedSetting("headers") { _ in .upstream(.headers) },
                ])
            )
            .plain(
                "base_url",
                "timeout_seconds",
                "max_concurrency",
                "id_pointer",
                "updated_at",
                "allowed_headers",
                "down_since",
                "erase_endpoint",
                "send_weak_etags",
                "is_paused",
                "paused_until",
                "requests_per_second",
                "rate_missing",
                "rate_as_of"
            )
            .open("outcomes", "batch"),
        // once these keys are deleted, no copy of the sealed values can be decrypted
        StoredTable("organization_keys", key: ["number"], purge: .last)
            .plain("master_key", "created_at")
            .open("wrapped_key"),
        StoredTable("organizations", key: ["id"], purge: .end)
            .plain("name", "status", "created_at", "updated_at")
            .open("settings"),
    ]
}
