import SyncStore

extension SchemaObstacle {
    /// The defect, with an instruction.
    package var userMessage: String {
        switch self {
        case .encoding(let encoding, let database):
            "database \(database) has the encoding \(encoding), which cannot store every text; create one with UTF8: "
                + "createdb --encoding UTF8 --template template0 --owner ROLE NAME, and set "
                + "\(Setting.databaseURL.variable) to it"
        case .noSchema:
            "the role's search_path contains no existing schema that the role may use; run, as a superuser: "
                + "CREATE SCHEMA IF NOT EXISTS public; GRANT USAGE ON SCHEMA public TO the role"
        case .taken(let names, let database):
            "database \(database) has tables or types of another program with names that Sluice uses "
                + "(\(names.joined(separator: ", "))); create a separate database: createdb --encoding UTF8 --template "
                + "template0 --owner ROLE sluice, and set \(Setting.databaseURL.variable) to it. Nothing was changed"
        case .noRight(let schema, let database, let role):
            "role \(role) may not create tables in schema \(schema) of database \(database); make it the database's "
                + "owner, as a superuser: ALTER DATABASE \(database) OWNER TO \(role); or run sluice migrate as the "
                + "owner"
        }
    }
}
