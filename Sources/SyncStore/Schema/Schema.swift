package import Postgres

/// The gateway's schema: the files of `sql/migrations`.
///
/// The build puts these files into the binary.
package enum Schema {
    /// The default number of partitions of each partitioned table.
    package static let defaultPartitions = 4

    /// Every migration, in order. A test compares the list with the files.
    package static let migrations = texts.map { name, text in
        Migration(
            name: name,
            sql: String(decoding: text, as: UTF8.self),
            publishedChecksum: publishedChecksums[name]
        )
    }

    private static let texts: KeyValuePairs<String, [UInt8]> = [
        "0001_base": PackageResources._001_base_sql,
        "0002_upstream": PackageResources._002_upstream_sql,
        "0003_delivery": PackageResources._003_delivery_sql,
        "0004_retention": PackageResources._004_retention_sql,
        "0005_quotas": PackageResources._005_quotas_sql,
        "0006_readers": PackageResources._006_readers_sql,
        "0007_sealing": PackageResources._007_sealing_sql,
        "0008_mapping_use": PackageResources._008_mapping_use_sql,
        "0009_device_ids": PackageResources._009_device_ids_sql,
        "0010_open_mutations_in_order": PackageResources._010_open_mutations_in_order_sql,
        "0011_holds": PackageResources._011_holds_sql,
        "0012_ids": PackageResources._012_ids_sql,
        "0013_allowed_headers": PackageResources._013_allowed_headers_sql,
        "0014_gateways": PackageResources._014_gateways_sql,
        "0015_etags": PackageResources._015_etags_sql,
        "0016_identities": PackageResources._016_identities_sql,
        "0017_joined_users": PackageResources._017_joined_users_sql,
        "0018_ingest": PackageResources._018_ingest_sql,
        "0019_webhooks": PackageResources._019_webhooks_sql,
        "0020_erased_users": PackageResources._020_erased_users_sql,
        "0021_sources": PackageResources._021_sources_sql,
        "0022_order_of_parked_events": PackageResources._022_order_of_parked_events_sql,
        "0023_user_keys": PackageResources._023_user_keys_sql,
        "0024_audit": PackageResources._024_audit_sql,
        "0025_stuck_mutations": PackageResources._025_stuck_mutations_sql,
        "0026_operations": PackageResources._026_operations_sql,
        "0027_stuck_mutations_by_id": PackageResources._027_stuck_mutations_by_id_sql,
        "0028_halted_lanes_in_order": PackageResources._028_halted_lanes_in_order_sql,
        "0029_exact_moments": PackageResources._029_exact_moments_sql,
        "0030_weak_etags_and_totals": PackageResources._030_weak_etags_and_totals_sql,
        "0031_ended_sessions": PackageResources._031_ended_sessions_sql,
        "0032_relations": PackageResources._032_relations_sql,
        "0033_upstream_contract": PackageResources._033_upstream_contract_sql,
        "0034_channels": PackageResources._034_channels_sql,
        "0035_feed_indexes": PackageResources._035_feed_indexes_sql,
        "0036_order_keys": PackageResources._036_order_keys_sql,
        "0037_runnable_mutations": PackageResources._037_runnable_mutations_sql,
        "0038_stays_index": PackageResources._038_stays_index_sql,
        "0039_check_channels": PackageResources._039_check_channels_sql,
        "0040_channel_retention": PackageResources._040_channel_retention_sql,
    ]

    /// The name of the newest migration.
    package static var newest: String { migrations.last?.name ?? "" }

    /// Returns the newest migration that creates one of the tables; nil if no migration creates any of them.
    ///
    /// A gateway without this migration has no entry for at least one of the tables, so its jobs omit the table's rows.
    package static func newest(creating tables: [String]) -> String? {
        migrations.last { migration in tables.contains { migration.sql.contains("CREATE TABLE \($0) (") } }?.name
    }

    /// Applies missing migrations.
    ///
    /// - Parameter partitions: 1 to 1,024; used only when the tables are created. Later runs keep the tables' number of
    ///   partitions.
    package static func migrator(partitions: Int = defaultPartitions) -> Migrator {
        Migrator(migrations: migrations, variables: ["partitions": String(partitions)])
    }
}
