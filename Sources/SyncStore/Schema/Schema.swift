package import Postgres

/// The gateway's schema: the files of `sql/migrations`.
///
/// The build puts them into the binary.
package enum Schema {
    /// Partitions of each partitioned table, by default.
    package static let defaultPartitions = 4

    /// Every migration, in order; a test compares the list with the folder.
    package static let migrations = [
        Migration(name: "0001_base", sql: String(decoding: PackageResources._001_base_sql, as: UTF8.self)),
        Migration(name: "0002_upstream", sql: String(decoding: PackageResources._002_upstream_sql, as: UTF8.self)),
        Migration(name: "0003_delivery", sql: String(decoding: PackageResources._003_delivery_sql, as: UTF8.self)),
        Migration(name: "0004_retention", sql: String(decoding: PackageResources._004_retention_sql, as: UTF8.self)),
        Migration(name: "0005_quotas", sql: String(decoding: PackageResources._005_quotas_sql, as: UTF8.self)),
        Migration(name: "0006_readers", sql: String(decoding: PackageResources._006_readers_sql, as: UTF8.self)),
        Migration(name: "0007_sealing", sql: String(decoding: PackageResources._007_sealing_sql, as: UTF8.self)),
        Migration(
            name: "0008_mapping_use",
            sql: String(decoding: PackageResources._008_mapping_use_sql, as: UTF8.self)
        ),
        Migration(name: "0009_device_ids", sql: String(decoding: PackageResources._009_device_ids_sql, as: UTF8.self)),
        Migration(
            name: "0010_open_mutations_in_order",
            sql: String(decoding: PackageResources._010_open_mutations_in_order_sql, as: UTF8.self)
        ),
        Migration(name: "0011_holds", sql: String(decoding: PackageResources._011_holds_sql, as: UTF8.self)),
        Migration(name: "0012_ids", sql: String(decoding: PackageResources._012_ids_sql, as: UTF8.self)),
        Migration(
            name: "0013_allowed_headers",
            sql: String(decoding: PackageResources._013_allowed_headers_sql, as: UTF8.self)
        ),
        Migration(name: "0014_gateways", sql: String(decoding: PackageResources._014_gateways_sql, as: UTF8.self)),
        Migration(name: "0015_etags", sql: String(decoding: PackageResources._015_etags_sql, as: UTF8.self)),
        Migration(name: "0016_identities", sql: String(decoding: PackageResources._016_identities_sql, as: UTF8.self)),
        Migration(
            name: "0017_joined_users",
            sql: String(decoding: PackageResources._017_joined_users_sql, as: UTF8.self)
        ),
        Migration(name: "0018_ingest", sql: String(decoding: PackageResources._018_ingest_sql, as: UTF8.self)),
        Migration(name: "0019_webhooks", sql: String(decoding: PackageResources._019_webhooks_sql, as: UTF8.self)),
        Migration(
            name: "0020_erased_users",
            sql: String(decoding: PackageResources._020_erased_users_sql, as: UTF8.self)
        ),
        Migration(name: "0021_sources", sql: String(decoding: PackageResources._021_sources_sql, as: UTF8.self)),
        Migration(
            name: "0022_order_of_parked_events",
            sql: String(decoding: PackageResources._022_order_of_parked_events_sql, as: UTF8.self)
        ),
        Migration(name: "0023_user_keys", sql: String(decoding: PackageResources._023_user_keys_sql, as: UTF8.self)),
        Migration(name: "0024_audit", sql: String(decoding: PackageResources._024_audit_sql, as: UTF8.self)),
        Migration(
            name: "0025_stuck_mutations",
            sql: String(decoding: PackageResources._025_stuck_mutations_sql, as: UTF8.self)
        ),
        Migration(name: "0026_operations", sql: String(decoding: PackageResources._026_operations_sql, as: UTF8.self)),
        Migration(
            name: "0027_stuck_mutations_by_id",
            sql: String(decoding: PackageResources._027_stuck_mutations_by_id_sql, as: UTF8.self)
        ),
        Migration(
            name: "0028_halted_lanes_in_order",
            sql: String(decoding: PackageResources._028_halted_lanes_in_order_sql, as: UTF8.self)
        ),
        Migration(
            name: "0029_exact_moments",
            sql: String(decoding: PackageResources._029_exact_moments_sql, as: UTF8.self)
        ),
        Migration(
            name: "0030_weak_etags_and_totals",
            sql: String(decoding: PackageResources._030_weak_etags_and_totals_sql, as: UTF8.self)
        ),
        Migration(
            name: "0031_ended_sessions",
            sql: String(decoding: PackageResources._031_ended_sessions_sql, as: UTF8.self)
        ),
        Migration(name: "0032_relations", sql: String(decoding: PackageResources._032_relations_sql, as: UTF8.self)),
        Migration(
            name: "0033_upstream_contract",
            sql: String(decoding: PackageResources._033_upstream_contract_sql, as: UTF8.self)
        ),
        Migration(name: "0035_channels", sql: String(decoding: PackageResources._035_channels_sql, as: UTF8.self)),
    ]

    /// The name of the newest migration.
    package static var newest: String { migrations.last?.name ?? "" }

    /// Applies missing migrations.
    ///
    /// - Parameter partitions: 1 to 1,024; used only when the tables are created. Later runs keep the tables' number of
    ///   partitions.
    package static func migrator(partitions: Int = defaultPartitions) -> Migrator {
        Migrator(migrations: migrations, variables: ["partitions": String(partitions)])
    }
}
