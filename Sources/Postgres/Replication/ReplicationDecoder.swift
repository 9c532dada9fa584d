/// Reads messages of `pgoutput`.
///
/// The bytes come from a server that the operator does not control. For any input, the decoder reads only within the
/// bytes, and never creates a value that is larger than the input.
struct ReplicationDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    /// - Throws: `decoding` if the bytes are not a message of version 1.
    static func message(_ bytes: UnsafeRawBufferPointer) throws(PostgresError) -> ReplicationMessage {
        var decoder = ReplicationDecoder(bytes)
        return try decoder.message()
    }

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    private mutating func message() throws(PostgresError) -> ReplicationMessage {
        switch try byte() {
        case UInt8(ascii: "B"):
            let commit = try position()
            return .begin(commit: commit, at: PostgresTimestamp(wire: try integer(Int64.self)).microseconds)
        case UInt8(ascii: "C"):
            // flags, and the position of the commit
            _ = try (byte(), position())
            return .commit(end: try position())
        case UInt8(ascii: "R"): return .relation(try relation())
        case UInt8(ascii: "I"):
            let table = try integer(UInt32.self)
            guard try byte() == UInt8(ascii: "N") else { throw damage("an insert without a row") }
            return .insertion(table: table, new: try tuple())
        case UInt8(ascii: "U"):
            let table = try integer(UInt32.self)
            let (old, mark) = try oldTuple()
            guard mark == UInt8(ascii: "N") else { throw damage("an update without a row") }
            return .row(table: table, old: old, new: try tuple())
        case UInt8(ascii: "D"):
            let table = try integer(UInt32.self)
            guard let old = try oldTuple(isAlone: true).tuple else { throw damage("a deletion of no row") }
            return .deletion(table: table, old: old)
        case UInt8(ascii: "T"):
            let count = try count(UInt32.self, each: 4)
            // options: CASCADE, RESTART IDENTITY
            _ = try byte()
            var tables: [UInt32] = []
            for _ in 0..<count { tables.append(try integer(UInt32.self)) }
            return .truncation(tables: tables)
        case UInt8(ascii: "O"), UInt8(ascii: "Y"), UInt8(ascii: "M"): return .other
        case let kind: throw damage("a message of kind \(kind)")
        }
    }

    private mutating func relation() throws(PostgresError) -> ReplicationRelation {
        let (id, schema, name) = (try integer(UInt32.self), try name(), try name())
        // the setting of the replica identity
        _ = try byte()
        var columns: [ReplicationRelation.Column] = []
        for _ in 0..<(try count(UInt16.self, each: 10)) {
            let flags = try byte()
            columns.append(.init(name: try self.name(), type: try integer(UInt32.self), isKey: flags & 1 == 1))
            // the type's modifier
            _ = try integer(Int32.self)
        }
        return ReplicationRelation(id: id, schema: schema, name: name, columns: columns)
    }

    /// Reads the previous state of a row, if the message contains it, and the mark that follows.
    private mutating func oldTuple(
        isAlone: Bool = false
    ) throws(PostgresError) -> (tuple: ReplicationTuple?, mark: UInt8) {
        let mark = try byte()
        // the columns that identify the row, or all columns
        guard mark == UInt8(ascii: "K") || mark == UInt8(ascii: "O") else { return (nil, mark) }
        let tuple = try tuple()
        return (tuple, isAlone ? 0 : try byte())
    }

    private mutating func tuple() throws(PostgresError) -> ReplicationTuple {
        var values: ReplicationTuple = []
        for _ in 0..<(try count(UInt16.self, each: 1)) {
            switch try byte() {
            case UInt8(ascii: "n"): values.append(.null)
            case UInt8(ascii: "u"): values.append(.unchanged)
            case UInt8(ascii: "t"): values.append(.text(Array(try take(count(UInt32.self, each: 1)))))
            case let kind: throw damage("a value of kind \(kind)")
            }
        }
        return values
    }

    // MARK: - Parts

    private mutating func byte() throws(PostgresError) -> UInt8 { try integer(UInt8.self) }

    mutating func position() throws(PostgresError) -> LogPosition { LogPosition(try integer(UInt64.self)) }

    mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) throws(PostgresError) -> Value {
        let part = try take(MemoryLayout<Value>.size)
        return Value(bigEndian: part.loadUnaligned(as: type))
    }

    /// Reads the number of the parts that follow. Each part has at least the given number of bytes.
    ///
    /// Throws if the remaining bytes are too few for this number of parts.
    private mutating func count<Value: FixedWidthInteger>(
        _ type: Value.Type,
        each size: Int
    ) throws(PostgresError) -> Int {
        let count = Int(try integer(type))
        guard count <= (bytes.count - offset) / size else { throw damage("\(count) parts") }
        return count
    }

    /// Reads a text up to a zero byte.
    private mutating func name() throws(PostgresError) -> String {
        let rest = bytes[offset...]
        guard let end = rest.firstIndex(of: 0) else { throw damage("a name without an end") }
        offset = end + 1
        return String(decoding: bytes[rest.startIndex..<end], as: UTF8.self)
    }

    private mutating func take(_ count: Int) throws(PostgresError) -> UnsafeRawBufferPointer {
        guard count <= bytes.count - offset else { throw damage("\(count) bytes of \(bytes.count - offset)") }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
    }

    private func damage(_ what: String) -> PostgresError {
        PostgresError(.decoding, "the server sent \(what), which is not part of version 1 of pgoutput's protocol")
    }
}

// MARK: - ReplicationMessage

/// A message of the output plug-in `pgoutput` about one position in the log.
///
/// The format is version 1 of "Logical Replication Message Formats" in PostgreSQL's manual. The messages of a
/// transaction are not mixed with those of other transactions. Transactions arrive in commit order.
public enum ReplicationMessage: Sendable, Hashable {
    /// A transaction whose changes follow.
    ///
    /// `commit` is the position of the commit; `at` is the time of the commit by the server's clock, in microseconds
    /// since 1970.
    case begin(commit: LogPosition, at: Int64)
    /// The transaction has ended; the log continues at the position `end`.
    case commit(end: LogPosition)
    /// The structure of a table whose changes follow.
    ///
    /// The server sends this message before the table's first change, and again after the structure has changed.
    case relation(ReplicationRelation)
    /// A row was inserted.
    case insertion(table: UInt32, new: ReplicationTuple)
    /// A row was updated; `new` is its new state.
    ///
    /// If the columns that identify the row have changed, `old` has their previous values. With REPLICA IDENTITY FULL,
    /// `old` is the whole old row.
    case row(table: UInt32, old: ReplicationTuple?, new: ReplicationTuple)
    /// A row was deleted; `old` has the columns that identified it.
    ///
    /// The other columns are null unless the table has REPLICA IDENTITY FULL.
    case deletion(table: UInt32, old: ReplicationTuple)
    /// Tables were emptied.
    case truncation(tables: [UInt32])
    /// A message without row changes: an origin, the name of a type, or a message of `pg_logical_emit_message`.
    case other
}

/// A table as the log describes it.
public struct ReplicationRelation: Sendable, Hashable {
    public struct Column: Sendable, Hashable {
        public let name: String
        /// The type's OID. A built-in type has the same OID on all servers.
        public let type: UInt32
        /// Whether the column is part of a row's identity.
        public let isKey: Bool
    }

    public let id: UInt32
    public let schema: String
    public let name: String
    public let columns: [Column]
}

/// A row's values in the order of its table's columns.
public typealias ReplicationTuple = [ReplicationValue]

/// A value in the text form that the type's output function writes.
public enum ReplicationValue: Sendable, Hashable {
    case null
    /// A large value that the server did not send, because it has not changed.
    case unchanged
    case text([UInt8])
}

/// A position in a server's write-ahead log (`pg_lsn`): the number of bytes since the beginning of the log.
public struct LogPosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// No position. A stream that is requested with this value begins at the position of the slot.
    public static let zero = LogPosition(0)

    public let bytes: UInt64

    public init(_ bytes: UInt64) { self.bytes = bytes }

    /// Reads PostgreSQL's text: two hexadecimal numbers of 32 bits, as in `16/B374D848`. Nil for any other text.
    public init?(_ text: String) {
        let halves = text.split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, halves.allSatisfy({ $0.utf8.allSatisfy(Self.isDigit) }),
            let high = UInt32(halves[0], radix: 16), let low = UInt32(halves[1], radix: 16)
        else { return nil }
        bytes = UInt64(high) << 32 | UInt64(low)
    }

    /// PostgreSQL's text.
    public var description: String {
        [bytes >> 32, bytes & 0xFFFF_FFFF].map { String($0, radix: 16, uppercase: true) }.joined(separator: "/")
    }

    public static func < (one: LogPosition, other: LogPosition) -> Bool { one.bytes < other.bytes }

    /// Excludes signs, which `UInt32(_:radix:)` would accept.
    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
