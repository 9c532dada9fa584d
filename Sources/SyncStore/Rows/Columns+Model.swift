package import Postgres
package import SyncModel

extension Columns {
    /// A query that passes rows and, if the statement needs it, the moment behind them.
    package func query(_ statement: Statement, _ rows: [Row], at moment: Timestamp? = nil) -> Query {
        var parameters = parameters(rows)
        if let moment { parameters.add(timestamp: moment.microseconds) }
        assert(statement.parameters.starts(with: inputs), "statement '\(statement.name)' takes other columns")
        var query = Query(statement, parameters)
        query.isOfOneRow = rows.count == 1
        return query
    }
}

// Values of the model as columns that several tables have in the same form.
extension Columns {
    /// `organization_id` and `user_id`.
    package static func lane(_ value: @escaping @Sendable (Row) -> LaneKey) -> Self {
        Self(.uuid("organization_id") { value($0).organization }, .uuid("user_id") { value($0).user })
    }

    /// `server_id` and `server_id_is_integer`.
    package static func serverID(_ value: @escaping @Sendable (Row) -> ServerID?) -> Self {
        Self(
            .text("server_id") { value($0)?.text },
            .bool("server_id_is_integer") { value($0)?.isInteger ?? false }
        )
    }

    /// The columns of ``EntityName/list``.
    package static func entity(_ value: @escaping @Sendable (Row) -> EntityName) -> Self {
        Self(
            .text("entity_type") { value($0).type },
            .uuid("local_id") { value($0).clientID },
            .int8("local_number") { value($0).client?.number },
            .serverID { value($0).serverID }
        )
    }

    /// A `timestamptz` or NULL.
    package static func moment(_ name: String, _ value: @escaping @Sendable (Row) -> Timestamp?) -> Self {
        .timestamp(name) { value($0)?.microseconds }
    }

    /// One of the names that a CHECK allows.
    package static func choice<Value: RawRepresentable<String> & SendableMetatype>(
        _ name: String,
        _ value: @escaping @Sendable (Row) -> Value
    ) -> Self {
        .text(name) { value($0).rawValue }
    }

    /// One of the names that a CHECK allows, or NULL.
    package static func choice<Value: RawRepresentable<String> & SendableMetatype>(
        _ name: String,
        _ value: @escaping @Sendable (Row) -> Value?
    ) -> Self {
        .text(name) { value($0)?.rawValue }
    }
}

extension RowReader {
    /// Reads `organization_id` and `user_id`.
    package mutating func lane() throws(PostgresError) -> LaneKey {
        LaneKey(organization: try uuid("organization_id"), user: try uuid("user_id"))
    }

    /// Reads `entity_type` and `id`.
    package mutating func entityKey() throws(PostgresError) -> EntityKey {
        EntityKey(type: try string("entity_type"), id: try string("id"))
    }

    /// Reads `server_id` and `server_id_is_integer`.
    package mutating func serverID() throws(PostgresError) -> ServerID? {
        guard let text = try optionalString("server_id") else {
            skip("server_id_is_integer")
            return nil
        }
        return ServerID(text: text, isInteger: try bool("server_id_is_integer"))
    }

    /// Reads the columns of ``EntityName/list``.
    package mutating func entity() throws(PostgresError) -> EntityName {
        let type = try string("entity_type")
        let clientID = try optionalUUID("local_id")
        let number = try optionalInt64("local_number")
        let client = clientID.map { id in number.map { .number($0, standIn: id) } ?? ClientName.id(id) }
        return EntityName(type: type, client: client, serverID: try serverID())
    }

    /// Reads `endpoint`; nil for one that is no longer valid.
    package mutating func endpoint() throws(PostgresError) -> Endpoint? {
        try optionalString("endpoint").flatMap { try? Endpoint($0) }
    }

    /// Reads a `timestamptz`.
    package mutating func moment(_ name: StaticString) throws(PostgresError) -> Timestamp {
        Timestamp(microseconds: try timestamp(name))
    }

    /// Reads a `timestamptz` or NULL.
    package mutating func optionalMoment(_ name: StaticString) throws(PostgresError) -> Timestamp? {
        try optionalTimestamp(name).map(Timestamp.init(microseconds:))
    }

    /// Reads one of the names that a CHECK allows.
    package mutating func choice<Value: RawRepresentable<String>>(_ name: StaticString) throws(PostgresError) -> Value {
        try Self.value(string(name))
    }

    /// Reads one of the names that a CHECK allows, or NULL.
    package mutating func optionalChoice<Value: RawRepresentable<String>>(
        _ name: StaticString
    ) throws(PostgresError) -> Value? {
        guard let text = try optionalString(name) else { return nil }
        return try Self.value(text)
    }

    /// Reads `reference_ids` and `reference_types`, parallel arrays.
    ///
    /// Empty where they were not recorded.
    package mutating func references() throws(PostgresError) -> References {
        let ids = try optionalUUIDs("reference_ids") ?? []
        let types = try optionalStrings("reference_types") ?? []
        return References(ids, types: Dictionary(zip(ids, types)) { first, _ in first })
    }

    private static func value<Value: RawRepresentable<String>>(_ text: String) throws(PostgresError) -> Value {
        guard let value = Value(rawValue: text) else {
            throw PostgresError(.decoding, "'\(text)' is no \(Value.self)")
        }
        return value
    }
}

extension EntityName {
    /// The columns of `mutations` that name the entity, for a table that is called `m`.
    package static let list = "m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer"
}

extension Rows {
    /// Reads all rows.
    package func read<Value>(_ value: (inout RowReader) throws -> Value) throws -> [Value] {
        try map { row in
            var row = row
            return try value(&row)
        }
    }
}
