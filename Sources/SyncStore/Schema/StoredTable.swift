/// A table of the schema, as the jobs that walk over all tables treat it. The engine lists its tables in ``engine``, a
/// feature lists its own.
package struct StoredTable: Sendable, Hashable {
    /// What a purge of an organization does with its rows.
    package enum Purge: Sendable, Hashable {
        /// Deletes them in small batches.
        case batches
        /// Deletes them in the last transaction: there are few, and earlier steps of a purge need some of them.
        case last
        /// Keeps them: the audit log outlives an organization, without the ids of its users.
        case anonymize
        /// The table has no rows of organizations.
        case none
    }

    package let name: String
    /// The columns of the primary key, in its order, without the organization.
    package let key: [String]
    package let purge: Purge
    /// Whether `sluice organizations purge` shows how many rows there are.
    package let isShown: Bool

    package init(_ name: String, key: [String], purge: Purge = .batches, isShown: Bool = false) {
        self.name = name
        self.key = key
        self.purge = purge
        self.isShown = isShown
    }
}

extension StoredTable {
    /// The engine's tables, in the order in which a purge deletes their rows: lanes first, because their rows are the
    /// locks of all writers; what opens sealed values last.
    package static let engine = [
        StoredTable("lanes", key: ["user_id"]),
        StoredTable("mutations", key: ["user_id", "id"], isShown: true),
        StoredTable("attempts", key: ["user_id", "mutation_id", "slot"], isShown: true),
        StoredTable("rejections", key: ["user_id", "idempotency_key"], isShown: true),
        StoredTable("id_mappings", key: ["user_id", "client_id", "entity_type"], isShown: true),
        StoredTable("local_ids", key: ["user_id", "device_id", "entity_type", "local_id"], isShown: true),
        StoredTable("local_id_pages", key: ["user_id", "device_id", "page"]),
        StoredTable("entities", key: ["entity_type", "id"], isShown: true),
        StoredTable("devices", key: ["user_id", "device_id"], isShown: true),
        StoredTable("users", key: ["user_id"], isShown: true),
        StoredTable("user_subjects", key: ["issuer", "subject"], isShown: true),
        StoredTable("mutation_quotas", key: ["user_id"]),
        StoredTable("parked_events", key: ["source", "event_id"], isShown: true),
        StoredTable("ingested_events", key: ["source", "event_id"], isShown: true),
        StoredTable("sent_requests", key: ["idempotency_key"], isShown: true),
        StoredTable("user_keys", key: ["made_for"]),
        StoredTable("audit", key: ["id"], purge: .anonymize),
        StoredTable("ended_sessions", key: ["digest"], purge: .none),
        StoredTable("gateways", key: ["id"], purge: .none),
        StoredTable("feeds", key: [], purge: .last),
        StoredTable("entity_types", key: ["name"], purge: .last, isShown: true),
        StoredTable("request_quotas", key: [], purge: .last),
        StoredTable("external_ids", key: ["issuer", "external_id"], purge: .last),
        StoredTable("upstreams", key: [], purge: .last),
        // without these keys no copy of the sealed values can be opened any more
        StoredTable("organization_keys", key: ["number"], purge: .last),
        // the row that others refer to
        StoredTable("organizations", key: ["id"], purge: .last),
    ]
}
