public import GRDB

extension DatabaseMigrator {
    /// Adds the library's tables to the app's own migrations, in the app's own file.
    ///
    /// Call this method once, before or between the app's own `registerMigration` calls. Do not move the call in later
    /// versions of the app. The names of the library's migrations begin with `sluice`, and the names of its tables
    /// begin with `sluice_`.
    ///
    /// If the library had a separate migrator, the app's migrator would treat the database as superseded. With
    /// `eraseDatabaseOnSchemaChange`, the next launch would erase the file with all waiting writes.
    ///
    ///     var migrator = DatabaseMigrator()
    ///     migrator.registerSluiceMigrations()
    ///     migrator.registerMigration("contacts") { db in … }
    public mutating func registerSluiceMigrations() {
        registerMigration("sluice 1: outbox, ids, base") { db in try db.execute(sql: Self.outboxIDsBase) }
        registerMigration("sluice 2: writes of other devices") { db in try Self.createOthers(db) }
        registerMigration("sluice 3: captured rows, shared devices") { db in
            // whether another phone also has this device id, because both phones were set up from the same backup
            try db.execute(sql: "ALTER TABLE sluice_device ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0")
            // whether the mutation took effect before the present pull from the beginning
            try db.execute(sql: "ALTER TABLE sluice_mutations ADD COLUMN is_outdated INTEGER NOT NULL DEFAULT 0")
            try db.execute(
                sql: """
                    CREATE INDEX sluice_mutations_visible ON sluice_mutations (sequence_number)
                    WHERE is_shown AND status = 'succeeded'
                    """
            )
            // rows that the app has changed; triggers have recorded them, and they are not enqueued yet. If a row
            // cannot be enqueued, the reason is stored
            try db.execute(sql: "CREATE TABLE sluice_captured (\(CaptureTriggers.columns))")
            try db.execute(sql: "CREATE INDEX sluice_captured_by_row ON sluice_captured (entity_type, key)")
        }
        registerMigration("sluice 4: installations") { db in
            // the installation to which the device id belongs; a copy of the file on another phone belongs to a
            // different installation
            try db.execute(sql: "ALTER TABLE sluice_device ADD COLUMN installation TEXT")
            // whether the gateway's local ids for rows may differ from the phone's local ids
            try db.execute(sql: "ALTER TABLE sluice_device ADD COLUMN has_other_numbers INTEGER NOT NULL DEFAULT 0")
        }
        registerMigration("sluice 5: subscriptions") { db in
            // the channels to which pulls are restricted, as JSON; NULL for no restriction
            try db.execute(sql: "ALTER TABLE sluice_device ADD COLUMN subscriptions TEXT")
        }
        registerMigration("sluice 6: order keys") { db in
            try db.execute(sql: "ALTER TABLE sluice_mutations ADD COLUMN order_key TEXT")
        }
    }

    /// Creates the table with copies of writes that the user's other devices have made, and that need a decision.
    private static func createOthers(_ db: Database) throws {
        try db.create(table: "sluice_others", options: .withoutRowID) { table in
            table.primaryKey("id", .text)
            table.column("device_id", .text).notNull()
            table.column("sequence_number", .integer).notNull()
            table.column("status", .text).notNull().check(sql: "status IN ('failed', 'conflict')")
            table.column("operation", .text).notNull()
            table.column("entity_type", .text).notNull()
            // the key of this phone's row, if the phone has the row
            table.column("key", .text)
            // the id with which the other device identifies the entity, as JSON; one of the two columns is used
            for name in ["local_id", "server_id"] { table.column(name, .text) }
            for name in ["created_at", "payload", "response", "error"] { table.column(name, .text) }
            table.column("attempt_count", .integer)
            // the reason why a decision about the write was refused
            table.column("settle_error", .text)
        }
    }

    // Do not change comments within CREATE TABLE. SQLite stores them as part of the schema, and with
    // `eraseDatabaseOnSchemaChange`, GRDB erases the file if they change. These columns need more explanation:
    //
    // - `accepted_sequence`: the watermark that the gateway last returned.
    // - `generation`: the number of the last pull from the beginning. In `sluice_base`, it is the number of the last
    //   such pull that contained the entity. When a pull ends, entities with a lower number are removed.
    // - `idempotency_key`: not indexed, because no query searches for it, and an index would add a changed page to the
    //   write-ahead log of each write.
    // - `local_id`, `server_id` of a mutation: the id of the entity in a push. At most one of the two is set.
    // - `payload`, `edited_payload`: the payload that was pushed first, and a retry's payload, which replaces it. They
    //   contain client ids unchanged.
    // - `names`: the client ids of the creates that the mutation needs.
    // - `is_shown`: whether the app's row shows the mutation, on top of the entity's base.
    // - `overtaken`: the members that a later write has written while this mutation waits for a decision.
    // - `result_server_id` and the columns up to `settled_at`: the gateway's last result for the mutation.
    // - `settle_error`: the reason why the gateway refused a decision about the mutation.
    // - `client_id` of a mapping: NULL if another user or the server created the entity.
    private static let outboxIDsBase = """
        -- This installation, in one row.
        CREATE TABLE sluice_device (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            device_id TEXT NOT NULL,
            -- whose database it is: issuer, organization and user of the tokens it was synchronized with
            account TEXT,
            -- the lowest number that the next mutation may have
            next_sequence INTEGER NOT NULL DEFAULT 1,
            -- the gateway's watermark, as it last told
            accepted_sequence INTEGER NOT NULL DEFAULT 0,
            cursor TEXT,
            -- the entity types that the cursor is of
            pulled_types TEXT NOT NULL DEFAULT '',
            -- one more for each pull from the beginning; what it does not show is swept at its end
            generation INTEGER NOT NULL DEFAULT 0,
            -- the columns and members that rows were last written with: JSON, by entity type
            mapped_columns TEXT,
            is_snapshot INTEGER NOT NULL DEFAULT 1,
            snapshot_rows INTEGER NOT NULL DEFAULT 0,
            snapshot_began_at TEXT,
            pulled_at TEXT,
            pushed_at TEXT
        );

        -- The process that synchronizes, of all processes that have the file open; at most one row.
        CREATE TABLE sluice_flight (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            holder TEXT NOT NULL,
            expires_at REAL NOT NULL
        );

        -- Mutations (specification 001), in the order of their creation. They have the gateway's format (`format`), not
        -- the format of the app's tables, so that they stay valid when the app changes its tables.
        CREATE TABLE sluice_mutations (
            sequence_number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            -- not indexed: it is never looked for, and each index is a page of the log for every write
            idempotency_key TEXT NOT NULL,
            format INTEGER NOT NULL,
            operation TEXT NOT NULL,
            entity_type TEXT NOT NULL,
            -- the row's local key
            key TEXT,
            -- the entity as the gateway is told: JSON of the one or the other
            local_id TEXT,
            server_id TEXT,
            endpoint TEXT,
            -- JSON, client ids as they are; what was pushed first, and what a retry has put in its place
            payload TEXT,
            edited_payload TEXT,
            headers TEXT,
            dependency_ids TEXT,
            base_version INTEGER,
            conflict_resolution TEXT,
            priority INTEGER,
            max_attempts INTEGER,
            created_at TEXT NOT NULL,
            -- client ids whose creates it needs: a JSON array of texts, type and id
            names TEXT NOT NULL DEFAULT '[]',
            status TEXT NOT NULL DEFAULT 'queued' CHECK (status IN (
                'queued', 'sent', 'pending', 'blocked', 'in_flight', 'succeeded', 'conflict', 'failed', 'discarded',
                'rejected')),
            -- whether it stands on top of the base in what the app shows
            is_shown INTEGER NOT NULL DEFAULT 0,
            -- members that a later write has written since, while this one waits for a decision: a JSON array
            overtaken TEXT,
            -- of the gateway's last word on it
            result_server_id TEXT,
            version INTEGER,
            etag TEXT,
            blocked_by TEXT,
            resolution TEXT,
            response TEXT,
            error TEXT,
            warnings TEXT,
            revision INTEGER,
            attempt_count INTEGER,
            next_retry_at TEXT,
            settled_at TEXT,
            -- why a decision about it was not taken
            settle_error TEXT
        );
        CREATE INDEX sluice_mutations_by_status ON sluice_mutations (status, sequence_number);
        CREATE INDEX sluice_mutations_by_entity ON sluice_mutations (entity_type, key, is_shown);

        -- A person's decisions about mutations, until the gateway has received them.
        CREATE TABLE sluice_intents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            mutation_id TEXT NOT NULL UNIQUE,
            action TEXT NOT NULL CHECK (action IN ('retry', 'discard', 'resolve')),
            body TEXT NOT NULL,
            created_at TEXT NOT NULL
        );

        -- Id mappings (specification 000): the phone's id of an entity and the server's.
        CREATE TABLE sluice_id_mappings (
            entity_type TEXT NOT NULL,
            -- the key of the app's row
            key TEXT NOT NULL,
            -- JSON; NULL for what others made
            client_id TEXT,
            server_id TEXT,
            status TEXT NOT NULL CHECK (status IN ('pending', 'resolved', 'failed')),
            created_at TEXT NOT NULL,
            resolved_at TEXT,
            CHECK (status <> 'resolved' OR server_id IS NOT NULL),
            PRIMARY KEY (entity_type, key)
        ) WITHOUT ROWID;
        CREATE UNIQUE INDEX sluice_id_mappings_by_server_id
            ON sluice_id_mappings (entity_type, server_id) WHERE server_id IS NOT NULL;
        -- Only client ids that differ from the key. Other client ids are found by the key, so most rows need no entry.
        CREATE UNIQUE INDEX sluice_id_mappings_by_client_id
            ON sluice_id_mappings (entity_type, client_id) WHERE client_id <> key AND client_id <> '"' || key || '"';

        -- Each entity as the server last sent it, with local keys.
        CREATE TABLE sluice_base (
            entity_type TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER,
            etag TEXT,
            is_deleted INTEGER NOT NULL,
            document TEXT,
            generation INTEGER NOT NULL,
            PRIMARY KEY (entity_type, key)
        ) WITHOUT ROWID;

        -- Entities whose rows could not be written: the reason, and the entity for which each row waits.
        CREATE TABLE sluice_held (
            entity_type TEXT NOT NULL,
            key TEXT NOT NULL,
            reason TEXT NOT NULL,
            waits_for_type TEXT,
            waits_for_key TEXT,
            PRIMARY KEY (entity_type, key)
        );
        CREATE INDEX sluice_held_by_target ON sluice_held (waits_for_type, waits_for_key);
        """
}
