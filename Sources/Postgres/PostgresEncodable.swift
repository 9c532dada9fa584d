public import FoundationEssentials

/// A Swift type whose values are parameters of a statement, in PostgreSQL's binary format.
///
/// The size is known before the value is written, so that all values of an array share one allocation. All requirements
/// can be inlined.
public protocol PostgresEncodable: SendableMetatype {
    static var postgresType: PostgresType { get }
    /// The number of bytes of the value; nil means NULL.
    var postgresSize: Int? { get }
    /// Writes exactly `postgresSize` bytes; not called for NULL.
    func writePostgres(to target: UnsafeMutableRawPointer)

    // These methods are requirements, so that their loop over the elements is compiled for each conforming type.
    static func postgresSize(of values: [Self]) -> Int
    static func writePostgres(_ values: [Self], to target: UnsafeMutableRawPointer)
}

/// The type that is declared to the server for a value.
///
/// Because the type is declared, the server refuses a value whose type is wrong for its parameter, and never misreads
/// its bytes.
public struct PostgresType: Sendable {
    /// The name in SQL.
    public let name: StaticString
    @usableFromInline let oid: UInt32
    /// The OID of the type's arrays. For an array type it is 0, because arrays of arrays cannot be sent; the server
    /// refuses 0.
    let array: UInt32

    public static let bool = PostgresType(name: "bool", oid: OID.bool, array: 1000)
    public static let bytea = PostgresType(name: "bytea", oid: OID.bytea, array: 1001)
    public static let int2 = PostgresType(name: "int2", oid: OID.int2, array: 1005)
    public static let int4 = PostgresType(name: "int4", oid: OID.int4, array: 1007)
    public static let int8 = PostgresType(name: "int8", oid: OID.int8, array: 1016)
    public static let float8 = PostgresType(name: "float8", oid: OID.float8, array: 1022)
    public static let text = PostgresType(name: "text", oid: OID.text, array: 1009)
    public static let timestamptz = PostgresType(name: "timestamptz", oid: OID.timestamptz, array: 1185)
    public static let uuid = PostgresType(name: "uuid", oid: OID.uuid, array: 2951)
    public static let json = PostgresType(name: "json", oid: OID.json, array: 199)
    public static let jsonb = PostgresType(name: "jsonb", oid: OID.jsonb, array: 3807)

    @usableFromInline var asArray: PostgresType { PostgresType(name: "anyarray", oid: array, array: 0) }
}

// MARK: - Values of one size

extension UUID: PostgresEncodable {
    public static var postgresType: PostgresType { .uuid }
    @inlinable public var postgresSize: Int? { 16 }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: uuid, as: uuid_t.self)
    }
}

extension Bool: PostgresEncodable {
    public static var postgresType: PostgresType { .bool }
    @inlinable public var postgresSize: Int? { 1 }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: self ? 1 : 0, as: UInt8.self)
    }
}

extension PostgresEncodable where Self: FixedWidthInteger {
    @inlinable public var postgresSize: Int? { MemoryLayout<Self>.size }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) { target.store(bigEndian: self) }
}

extension UnsafeMutableRawPointer {
    @inlinable
    func store<Value: FixedWidthInteger>(bigEndian value: Value) {
        storeBytes(of: value.bigEndian, as: Value.self)
    }
}

extension Int16: PostgresEncodable {
    public static var postgresType: PostgresType { .int2 }
}

extension Int32: PostgresEncodable {
    public static var postgresType: PostgresType { .int4 }
}

extension Int64: PostgresEncodable {
    public static var postgresType: PostgresType { .int8 }
}

extension Int: PostgresEncodable {
    public static var postgresType: PostgresType { .int8 }
}

extension Double: PostgresEncodable {
    public static var postgresType: PostgresType { .float8 }
    @inlinable public var postgresSize: Int? { 8 }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) { target.store(bigEndian: bitPattern) }
}

extension PostgresTimestamp: PostgresEncodable {
    public static var postgresType: PostgresType { .timestamptz }
    public var postgresSize: Int? { 8 }
    public func writePostgres(to target: UnsafeMutableRawPointer) { target.store(bigEndian: wire) }
}

// MARK: - Values of any size

extension String: PostgresEncodable {
    public static var postgresType: PostgresType { .text }
    @inlinable public var postgresSize: Int? { utf8.count }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        var text = self
        text.withUTF8 { UnsafeMutableRawBufferPointer(start: target, count: $0.count).copyBytes(from: $0) }
    }
}

/// Bytes, sent as a `bytea`; nil is NULL.
public struct PostgresBytes: PostgresEncodable {
    public static var postgresType: PostgresType { .bytea }
    @usableFromInline let bytes: [UInt8]?

    @inlinable public init(_ bytes: [UInt8]?) { self.bytes = bytes }

    @inlinable public var postgresSize: Int? { bytes?.count }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        bytes?.withUnsafeBytes { UnsafeMutableRawBufferPointer(start: target, count: $0.count).copyMemory(from: $0) }
    }
}

/// UTF-8 text, sent as a `json` and stored unchanged; nil is NULL.
public struct PostgresJSON<Bytes: Collection<UInt8> & SendableMetatype>: PostgresEncodable {
    public static var postgresType: PostgresType { .json }
    @usableFromInline let text: Bytes?

    @inlinable public init(_ text: Bytes?) { self.text = text }

    @inlinable public var postgresSize: Int? { text?.count }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        guard let text else { return }
        UnsafeMutableRawBufferPointer(start: target, count: text.count).copyBytes(from: text)
    }
}

/// UTF-8 text, sent as a `jsonb`; nil is NULL.
public struct PostgresJSONB: PostgresEncodable {
    public static var postgresType: PostgresType { .jsonb }
    let text: PostgresBytes

    public init(_ text: [UInt8]?) { self.text = PostgresBytes(text) }

    public var postgresSize: Int? { text.postgresSize.map { 1 + $0 } }
    public func writePostgres(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: 1, as: UInt8.self)  // the version
        text.writePostgres(to: target + 1)
    }
}

// MARK: - NULL, and arrays of one dimension

extension Optional: PostgresEncodable where Wrapped: PostgresEncodable {
    @inlinable public static var postgresType: PostgresType { Wrapped.postgresType }
    @inlinable public var postgresSize: Int? { self?.postgresSize }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) { self?.writePostgres(to: target) }
}

extension Array: PostgresEncodable where Element: PostgresEncodable {
    @inlinable public static var postgresType: PostgresType { Element.postgresType.asArray }
    @inlinable public var postgresSize: Int? { Element.postgresSize(of: self) }
    @inlinable public func writePostgres(to target: UnsafeMutableRawPointer) {
        Element.writePostgres(self, to: target)
    }
}

// The binary form is: the number of dimensions, a flag for NULLs and the element type; then, for each dimension, its
// length and lower bound; then, for each element, its length (-1 for NULL) and bytes.
extension PostgresEncodable {
    @inlinable
    public static func postgresSize(of values: [Self]) -> Int {
        values.reduce(values.isEmpty ? 12 : 20) { $0 + 4 + ($1.postgresSize ?? 0) }
    }

    @inlinable
    public static func writePostgres(_ values: [Self], to target: UnsafeMutableRawPointer) {
        var (place, hasNulls) = (target + 12, false)
        if !values.isEmpty {
            // Clamping is harmless, because an array with so many values exceeds the size limit that is checked before
            // sending.
            place.store(bigEndian: Int32(clamping: values.count))
            (place + 4).store(bigEndian: 1 as Int32)
            place += 8
        }
        for value in values {
            let size = value.postgresSize
            place.store(bigEndian: Int32(clamping: size ?? -1))
            place += 4
            if let size {
                value.writePostgres(to: place)
                place += size
            } else {
                hasNulls = true
            }
        }
        target.store(bigEndian: values.isEmpty ? 0 : 1 as Int32)
        (target + 4).store(bigEndian: hasNulls ? 1 : 0 as Int32)
        (target + 8).store(bigEndian: postgresType.oid)
    }
}
