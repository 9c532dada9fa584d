/// Reads messages of `pgoutput`.
///
/// The bytes come from a server outside of the operator's control. With any input, nothing is read out of bounds, and
/// nothing is made that is larger than it.
struct ReplicationDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    /// - Throws: `decoding` where the bytes are no message of version 1.
    static func message(_ bytes: UnsafeRawBufferPointer) throws(PostgresError) -> ReplicationMessage {
        var decoder = ReplicationDecoder(bytes)
        return try decoder.message()
    }

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    private mutating func message() throws(PostgresError) -> ReplicationMessage {
        switch try byte() {
        case UInt8(ascii: "B"):
            let commit = try position()
            return .begin(commit: commit, at: TimestampEpoch.unix(fromWire: try integer(Int64.self)))
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
        // which replica identity
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

    /// A row as it was, if there is one, and the mark behind it.
    private mutating func oldTuple(
        isAlone: Bool = false
    ) throws(PostgresError) -> (tuple: ReplicationTuple?, mark: UInt8) {
        let mark = try byte()
        // the columns that identify the row, or all of it
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

    /// Reads a number of parts that take so many bytes each.
    ///
    /// It cannot exceed the remaining bytes.
    private mutating func count<Value: FixedWidthInteger>(
        _ type: Value.Type,
        each size: Int
    ) throws(PostgresError) -> Int {
        let count = Int(try integer(type))
        guard count <= (bytes.count - offset) / size else { throw damage("\(count) parts") }
        return count
    }

    /// A text up to a zero.
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
        PostgresError(.decoding, "the server sent \(what), which is nothing of pgoutput's protocol of version 1")
    }
}
