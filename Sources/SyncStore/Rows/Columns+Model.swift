package import Foundation
public import Postgres
public import SyncModel

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

// The first parameters of nearly every statement.
extension Parameters {
    /// An organization; then the values.
    package init<each Value: ParameterValue>(of organization: UUID, _ values: repeat each Value) {
        self.init(organization, repeat each values)
    }

    /// An organization and its user; then the values.
    package init<each Value: ParameterValue>(of lane: LaneKey, _ values: repeat each Value) {
        self.init(lane.organization, lane.user, repeat each values)
    }

    /// An organization, its user and a device; then the values.
    package init<each Value: ParameterValue>(of device: DeviceKey, _ values: repeat each Value) {
        self.init(device.lane.organization, device.lane.user, device.id, repeat each values)
    }
}

extension Timestamp: NullableParameterValue {
    public static func add(_ value: Timestamp?, to parameters: inout Parameters) {
        parameters.add(timestamp: value?.microseconds)
    }
}

extension UserHash: ParameterValue {
    public func add(to parameters: inout Parameters) { parameters.add(bytes: bytes) }
}

extension MutationStatus {
    /// SQL: this status, where the row `row` may change to it, else NULL.
    ///
    /// The column refuses NULL. For written values, never for a condition: no plan depends on it.
    func reached(from row: String) -> String {
        "CASE WHEN \(row).status IN (\(Self.list(Self.allCases.filter { $0.canBecome(self) }))) THEN '\(rawValue)' END"
    }

    /// SQL: the final statuses, between the parentheses of IN.
    static let finalList = list(allCases.filter(\.isFinal))

    /// SQL: the statuses that only a person changes, between the parentheses of IN.
    package static let stuckList = list(forAPerson)

    /// SQL: some statuses, between the parentheses of IN.
    package static func list(_ statuses: [MutationStatus]) -> String {
        statuses.map { "'\($0.rawValue)'" }.joined(separator: ", ")
    }
}

extension UUID {
    /// The least id in PostgreSQL's order, which is by bytes.
    package static let least = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The greatest id in that order.
    package static let greatest = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}

extension Timestamp {
    /// A thousand years before 1970, earlier than any stored time.
    ///
    /// Minus infinity has no number.
    package static let longAgo = Timestamp(microseconds: 0).adding(seconds: -31_557_600_000)
}

/// SQL for the size of a JSON value before it is read.
enum RowBytes {
    /// The bytes of a nullable column's text.
    ///
    /// `pg_column_size` is the stored size, which may be a hundredth of the text for a compressed value. So a
    /// compressed value is measured as text, on the server, and all others without reading them.
    static func of(_ column: String) -> String {
        """
        coalesce(CASE WHEN pg_column_compression(\(column)) IS NULL THEN pg_column_size(\(column)) \
        ELSE octet_length(\(column)::text) END, 0)
        """
    }

    /// The bytes of a list of UUIDs as JSON.
    static func ofIDs(_ column: String) -> String { "\(WorkBounds.listedID) * coalesce(cardinality(\(column)), 0)" }
}

/// Lists of ids as one list and 1-based bounds, both inclusive.
///
/// This is how Postgres' array slices take them: `unnest` cannot make arrays of arrays.
struct FlattenedLists {
    /// The place of one list.
    struct Bounds {
        var from: Int32 = 1
        var to: Int32 = 0

        var isEmpty: Bool { to < from }
    }

    private(set) var ids: [UUID] = []

    mutating func add(_ list: [UUID]) -> Bounds {
        let from = Int32(ids.count + 1)
        ids += list
        return Bounds(from: from, to: Int32(ids.count))
    }
}
