package import FoundationEssentials
public import Postgres
public import SyncModel

extension Columns {
    /// Returns a query with the rows as parameters, followed by the time if the statement requires it.
    package func query(_ statement: Statement, _ rows: [Row], at moment: Timestamp? = nil) -> Query {
        var parameters = parameters(rows)
        if let moment { parameters.add(moment) }
        assert(statement.parameters.starts(with: inputs), "statement '\(statement.name)' takes other columns")
        var query = Query(statement, parameters)
        query.isOfOneRow = rows.count == 1
        return query
    }
}

// Columns for values of the model that have the same form in several tables.
extension Columns {
    /// `organization_id` and `user_id`.
    package static func lane(_ value: @escaping @Sendable (Row) -> LaneKey) -> Self {
        Self(.value("organization_id") { value($0).organization }, .value("user_id") { value($0).user })
    }

    /// `server_id` and `server_id_is_integer`.
    package static func serverID(_ value: @escaping @Sendable (Row) -> ServerID?) -> Self {
        Self(
            .value("server_id") { value($0)?.text },
            .value("server_id_is_integer") { value($0)?.isInteger ?? false }
        )
    }

    /// The columns of ``EntityName/list``.
    package static func entity(_ value: @escaping @Sendable (Row) -> EntityName) -> Self {
        Self(
            .value("entity_type") { value($0).type },
            .value("local_id") { value($0).clientID },
            .value("local_number") { value($0).client?.number },
            .serverID { value($0).serverID }
        )
    }

    /// A text that must be one of the names in a CHECK constraint.
    package static func choice<Value: RawRepresentable<String> & SendableMetatype>(
        _ name: String,
        _ value: @escaping @Sendable (Row) -> Value
    ) -> Self {
        .value(name) { value($0).rawValue }
    }

    /// A text that must be one of the names in a CHECK constraint, or NULL.
    package static func choice<Value: RawRepresentable<String> & SendableMetatype>(
        _ name: String,
        _ value: @escaping @Sendable (Row) -> Value?
    ) -> Self {
        .value(name) { value($0)?.rawValue }
    }
}

extension RowReader {
    /// Reads `organization_id` and `user_id`.
    package mutating func lane() throws(PostgresError) -> LaneKey {
        LaneKey(organization: try read("organization_id"), user: try read("user_id"))
    }

    /// Reads `entity_type` and `id`.
    package mutating func entityKey() throws(PostgresError) -> EntityKey {
        EntityKey(type: try read("entity_type"), id: try read("id"))
    }

    /// Reads `server_id` and `server_id_is_integer`.
    package mutating func serverID() throws(PostgresError) -> ServerID? {
        guard let text: String = try read("server_id") else {
            skip("server_id_is_integer")
            return nil
        }
        return ServerID(text: text, isInteger: try read("server_id_is_integer"))
    }

    /// Reads the columns of ``EntityName/list``.
    package mutating func entity() throws(PostgresError) -> EntityName {
        let type: String = try read("entity_type")
        let clientID: UUID? = try read("local_id")
        let number: Int64? = try read("local_number")
        let client = clientID.map { id in number.map { .number($0, standIn: id) } ?? ClientName.id(id) }
        return EntityName(type: type, client: client, serverID: try serverID())
    }

    /// Reads `endpoint`; nil if the stored endpoint is no longer valid.
    package mutating func endpoint() throws(PostgresError) -> Endpoint? {
        try read("endpoint", as: String?.self).flatMap { try? Endpoint($0) }
    }

    /// Reads a text that is one of the names in a CHECK constraint.
    package mutating func choice<Value: RawRepresentable<String>>(_ name: StaticString) throws(PostgresError) -> Value {
        try Self.value(read(name))
    }

    /// Reads a text that is one of the names in a CHECK constraint, or NULL.
    package mutating func optionalChoice<Value: RawRepresentable<String>>(
        _ name: StaticString
    ) throws(PostgresError) -> Value? {
        guard let text: String = try read(name) else { return nil }
        return try Self.value(text)
    }

    /// Reads `reference_ids` and `reference_types`, which are parallel arrays.
    ///
    /// The result is empty if the references were not recorded.
    package mutating func references() throws(PostgresError) -> References {
        let ids = try read("reference_ids", as: [UUID]?.self) ?? []
        let types = try read("reference_types", as: [String]?.self) ?? []
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
    /// The columns of `mutations` that name the entity, for a table with the alias `m`.
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
    /// An organization, followed by the values.
    package init<each Value: PostgresEncodable>(of organization: UUID, _ values: repeat each Value) {
        self.init(organization, repeat each values)
    }

    /// An organization and its user, followed by the values.
    package init<each Value: PostgresEncodable>(of lane: LaneKey, _ values: repeat each Value) {
        self.init(lane.organization, lane.user, repeat each values)
    }

    /// An organization, its user and a device, followed by the values.
    package init<each Value: PostgresEncodable>(of device: DeviceKey, _ values: repeat each Value) {
        self.init(device.lane.organization, device.lane.user, device.id, repeat each values)
    }
}

extension Timestamp: PostgresEncodable {
    public static var postgresType: PostgresType { .timestamptz }
    @inlinable public var postgresSize: Int? { 8 }
    public func writePostgres(to target: UnsafeMutableRawPointer) {
        PostgresTimestamp(microseconds: microseconds).writePostgres(to: target)
    }
}

extension Timestamp: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { PostgresTimestamp.isReadable(from: type) }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let value = PostgresTimestamp(postgres: bytes, type: type) else { return nil }
        self.init(microseconds: value.microseconds)
    }
}

extension UserHash: PostgresEncodable {
    public static var postgresType: PostgresType { .bytea }
    public var postgresSize: Int? { bytes.count }
    public func writePostgres(to target: UnsafeMutableRawPointer) { PostgresBytes(bytes).writePostgres(to: target) }
}

extension MutationStatus {
    /// SQL for this status if the row `row` may change to this status, otherwise NULL.
    ///
    /// The column refuses NULL, so that an invalid transition makes the statement fail. Use this expression only as a
    /// value to be written. In a condition, it could change PostgreSQL's query plan.
    func reached(from row: String) -> String {
        "CASE WHEN \(row).status IN (\(Self.list(Self.allCases.filter { $0.canBecome(self) }))) THEN '\(rawValue)' END"
    }

    /// SQL for the final statuses, for the parentheses of IN.
    static let finalList = list(allCases.filter(\.isFinal))

    /// SQL for the statuses that only a person changes, for the parentheses of IN.
    package static let stuckList = list(forAPerson)

    /// SQL for some statuses, for the parentheses of IN.
    package static func list(_ statuses: [MutationStatus]) -> String {
        statuses.map { "'\($0.rawValue)'" }.joined(separator: ", ")
    }
}

extension UUID {
    /// The least id in PostgreSQL's order, which compares bytes.
    package static let least = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The greatest id in PostgreSQL's order.
    package static let greatest = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}

extension Timestamp {
    /// A time a thousand years before 1970, earlier than any stored time.
    ///
    /// This time replaces minus infinity, which a number of microseconds cannot express.
    package static let longAgo = Timestamp(microseconds: 0).adding(seconds: -31_557_600_000)
}

/// Several lists of ids, stored as one list. Each list is given by 1-based inclusive bounds.
///
/// The lists are passed in this form because `unnest` cannot produce arrays of arrays. The statement reads each list as
/// a slice of one array.
struct FlattenedLists {
    /// The bounds of one list.
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
