package import Postgres

/// The reason why a database cannot contain the gateway's schema.
package enum SchemaObstacle: Error, Sendable, Equatable {
    /// The database's encoding cannot store every text.
    case encoding(String, database: String)
    /// The search path contains no schema in which tables could be created.
    case noSchema
    /// Relations or types of another program have names that pending migrations create.
    case taken([String], database: String)
    /// The role is not allowed to create tables in this schema.
    case noRight(schema: String, database: String, role: String)
}

extension Schema {
    /// The maximum number of names of other programs' relations that an obstacle lists.
    private static let shownNames = 5

    /// Returns the reason why pending migrations cannot be applied to a database, or why the database cannot be used;
    /// nil if there is no such reason.
    ///
    /// The check changes nothing. It throws the errors of ``Connection/run(_:timeout:)``.
    package static func obstacle(on connection: Connection) async throws(PostgresError) -> SchemaObstacle? {
        var last: (applied: [String], taken: [String])?
        while true {
            let rows = try await connection.run(Query(facts))
            let (encoding, database) = (try rows.read(0, 0, as: String.self), try rows.read(0, 1, as: String.self))
            guard encoding == "UTF8" else { return .encoding(encoding, database: database) }
            let schema: String = try rows.read(0, 2)
            guard !schema.isEmpty else { return .noSchema }
            let (hasTable, isOurs) = (try rows.read(0, 3, as: Bool.self), try rows.read(0, 4, as: Bool.self))
            var applied: [String] = []
            if hasTable, isOurs { applied = try names(in: try await connection.run(Query(applications))) }
            let pending = migrations.filter { !applied.contains($0.name) }
            if pending.isEmpty { return nil }
            var taken = try names(in: try await connection.run(Query(relations, namesCreated(by: pending))))
            if hasTable, !isOurs { taken.insert("schema_migrations", at: 0) }
            guard !taken.isEmpty else {
                if try rows.read(0, 5) { return nil }
                return .noRight(schema: schema, database: database, role: try rows.read(0, 6))
            }
            // another process may have applied a migration since the list was read; its relations belong to the gateway
            if let last, last.applied == applied, last.taken == taken {
                return .taken(Array(taken.prefix(shownNames)), database: database)
            }
            last = (applied, taken)
        }
    }

    /// The names that pending migrations create.
    ///
    /// Names that an applied migration has created are left out.
    private static func namesCreated(by pending: [Migration]) -> Parameters {
        let names = Set(pending.map(\.name))
        let applied = migrations.filter { !names.contains($0.name) }
        let known = Set(applied.flatMap { created(by: $0.sql) })
        var parameters = Parameters()
        parameters.add(Set(pending.flatMap { created(by: $0.sql) }).subtracting(known).sorted())
        return parameters
    }

    /// The names of the relations and types that a migration creates.
    static func created(by sql: String) -> [String] {
        let statements =
            #/(?m)^\s*CREATE (?:TABLE|UNIQUE INDEX|INDEX|VIEW|DOMAIN|TYPE|SEQUENCE) (?:IF NOT EXISTS )?(\w+)/#
        return sql.matches(of: statements).map { String($0.output.1) }
    }

    private static func names(in rows: Rows) throws(PostgresError) -> [String] {
        var names: [String] = []
        for row in 0..<rows.count { names.append(try rows.read(row, 0)) }
        return names
    }

    static let obstacleStatements = [facts, applications, relations]

    private static let facts = Statement(
        "schema_facts",
        """
        SELECT current_setting('server_encoding'), current_database()::text, coalesce(current_schema()::text, ''),
            to_regclass('schema_migrations') IS NOT NULL,
            (SELECT count(*) = 2 FROM pg_attribute
             WHERE attrelid = to_regclass('schema_migrations') AND attname IN ('name', 'checksum') AND attnum > 0
                AND NOT attisdropped),
            coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), current_user::text
        """
    )

    private static let applications = Statement("schema_applications", "SELECT name FROM schema_migrations")

    private static let relations = Statement(
        "schema_relations",
        ["names"],
        """
        SELECT relname::text FROM pg_class
        WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relname = ANY (:names::text[])
        UNION
        SELECT typname::text FROM pg_type
        WHERE typnamespace = to_regnamespace(quote_ident(current_schema())) AND typname = ANY (:names::text[])
        ORDER BY 1
        """
    )
}
