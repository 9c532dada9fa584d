public import FoundationEssentials

/// A Swift type whose values are read from a result, in PostgreSQL's binary format.
///
/// Types are not converted, except that a narrower integer or float may be read as a wider one.
public protocol PostgresDecodable {
    /// Returns whether values of the type with this OID can be read. The method is also called for NULL.
    static func isReadable(from type: UInt32) -> Bool
    /// Reads the bytes of a value; nil for bytes that are not a valid value.
    init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32)
    /// The value for NULL; nil if NULL is an error.
    static var postgresNull: Self? { get }
}

extension PostgresDecodable {
    @inlinable public static var postgresNull: Self? { nil }
}

extension Optional: PostgresDecodable where Wrapped: PostgresDecodable {
    @inlinable public static func isReadable(from type: UInt32) -> Bool { Wrapped.isReadable(from: type) }
    @inlinable public static var postgresNull: Self? { .some(nil) }

    @inlinable
    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let value = Wrapped(postgres: bytes, type: type) else { return nil }
        self = value
    }
}

extension UUID: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.uuid }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard bytes.count == MemoryLayout<uuid_t>.size else { return nil }
        self.init(uuid: bytes.loadUnaligned(as: uuid_t.self))
    }
}

extension Bool: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.bool }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let byte = UInt8(bigEndian: bytes) else { return nil }
        self = byte != 0
    }
}

/// A `timestamp` is read as UTC.
extension PostgresTimestamp: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.timestamptz || type == OID.timestamp }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let value = Int64(bigEndian: bytes) else { return nil }
        self.init(wire: value)
    }
}

// MARK: - Numbers

extension FixedWidthInteger {
    /// Reads a number of exactly this size.
    init?(bigEndian bytes: UnsafeRawBufferPointer) {
        guard bytes.count == MemoryLayout<Self>.size else { return nil }
        self.init(bigEndian: bytes.loadUnaligned(as: Self.self))
    }
}

extension PostgresDecodable where Self: FixedWidthInteger {
    /// Reads an `int8`, `int4`, `int2` or `oid`.
    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        let number: Int64? =
            switch type {
            case OID.int8: Int64(bigEndian: bytes)
            case OID.int4: Int32(bigEndian: bytes).map(Int64.init)
            case OID.oid: UInt32(bigEndian: bytes).map(Int64.init)
            case OID.int2: Int16(bigEndian: bytes).map(Int64.init)
            default: nil
            }
        guard let number else { return nil }
        self.init(exactly: number)
    }
}

extension Int64: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool {
        type == OID.int8 || type == OID.int4 || type == OID.int2 || type == OID.oid
    }
}

extension Int: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { Int64.isReadable(from: type) }
}

extension Int32: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.int4 || type == OID.int2 }
}

extension Int16: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.int2 }
}

extension Double: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { type == OID.float8 || type == OID.float4 }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        if let bits = UInt64(bigEndian: bytes) {
            self.init(bitPattern: bits)
        } else if let bits = UInt32(bigEndian: bytes) {
            self.init(Float(bitPattern: bits))
        } else {
            return nil
        }
    }
}

// MARK: - Texts and bytes

/// A text, a `json`, a `jsonb` or the label of an enum can be read.
extension String: PostgresDecodable {
    public static func isReadable(from type: UInt32) -> Bool { OID.isText(type) || type == OID.jsonb }

    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let text = OID.content(of: bytes, type) else { return nil }
        // The server has validated the encoding, which is always UTF-8.
        self.init(decoding: text, as: UTF8.self)
    }
}

/// An array of bytes can be read from a `bytea`, text, `json`, `jsonb` or enum label.
extension UInt8: PostgresElement {
    public static func isArrayReadable(from type: UInt32) -> Bool { type == OID.bytea || String.isReadable(from: type) }

    public static func array(postgres bytes: UnsafeRawBufferPointer, type: UInt32) -> [UInt8]? {
        OID.content(of: bytes, type).map(Array.init)
    }
}

// MARK: - Arrays

/// A type whose arrays can be read if they have one dimension and no NULL elements.
public protocol PostgresElement {
    static func isArrayReadable(from type: UInt32) -> Bool
    static func array(postgres bytes: UnsafeRawBufferPointer, type: UInt32) -> [Self]?
}

extension Array: PostgresDecodable where Element: PostgresElement {
    @inlinable public static func isReadable(from type: UInt32) -> Bool { Element.isArrayReadable(from: type) }

    @inlinable
    public init?(postgres bytes: UnsafeRawBufferPointer, type: UInt32) {
        guard let values = Element.array(postgres: bytes, type: type) else { return nil }
        self = values
    }
}

extension PostgresElement where Self: PostgresDecodable {
    public static func isArrayReadable(from type: UInt32) -> Bool {
        OID.arrays.contains(type) || type >= OID.firstUserDefined
    }

    public static func array(postgres bytes: UnsafeRawBufferPointer, type: UInt32) -> [Self]? {
        guard var reader = ArrayReader(bytes), reader.count == 0 || isReadable(from: reader.elementType) else {
            return nil
        }
        var values: [Self] = []
        values.reserveCapacity(reader.count)
        for _ in 0..<reader.count {
            guard let bytes = reader.next(), let value = Self(postgres: bytes, type: reader.elementType) else {
                return nil
            }
            values.append(value)
        }
        return values
    }
}

extension UUID: PostgresElement {}
extension Int64: PostgresElement {}
extension Bool: PostgresElement {}
extension String: PostgresElement {}

/// Reads the elements of an array of at most one dimension from its binary form, and never beyond the end of the bytes.
struct ArrayReader {
    let elementType: UInt32
    let count: Int
    private var rest: UnsafeRawBufferPointer

    /// Begins to read an array; nil if the bytes are not an array of at most one dimension.
    init?(_ bytes: UnsafeRawBufferPointer) {
        rest = bytes
        guard let dimensions = Self.integer(&rest), Self.integer(&rest) != nil, let type = Self.integer(&rest) else {
            return nil
        }
        elementType = UInt32(bitPattern: type)
        if dimensions == 0 {
            count = 0
            return
        }
        guard dimensions == 1, let length = Self.integer(&rest), Self.integer(&rest) != nil else { return nil }
        // Each element takes at least the four bytes of its length.
        guard length >= 0, Int(length) <= rest.count / 4 else { return nil }
        count = Int(length)
    }

    /// Returns the bytes of the next element; `nil` if the element is NULL or the array is truncated.
    mutating func next() -> UnsafeRawBufferPointer? {
        guard let length = Self.integer(&rest), length >= 0, Int(length) <= rest.count else { return nil }
        let element = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(length)))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(Int(length)))
        return element
    }

    private static func integer(_ bytes: inout UnsafeRawBufferPointer) -> Int32? {
        guard bytes.count >= 4 else { return nil }
        let value = Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))
        bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(4))
        return value
    }
}

// MARK: - OID

/// The OIDs of the built-in types that this target can send or read. They are the same on all servers.
enum OID {
    static let bool: UInt32 = 16
    static let bytea: UInt32 = 17
    static let name: UInt32 = 19
    static let int8: UInt32 = 20
    static let int2: UInt32 = 21
    static let int4: UInt32 = 23
    static let text: UInt32 = 25
    static let oid: UInt32 = 26
    static let json: UInt32 = 114
    static let float4: UInt32 = 700
    static let float8: UInt32 = 701
    static let unknown: UInt32 = 705
    static let bpchar: UInt32 = 1042
    static let varchar: UInt32 = 1043
    static let timestamp: UInt32 = 1114
    static let timestamptz: UInt32 = 1184
    static let uuid: UInt32 = 2950
    static let jsonb: UInt32 = 3802

    /// The types of arrays that can be read. Their elements are `bool`, `int2`, `int4`, `int8`, `uuid`, `text`, `name`
    /// or `varchar`.
    static let arrays: Set<UInt32> = [1000, 1003, 1005, 1007, 1009, 1015, 1016, 2951]

    /// Types at and above this number are defined in the database.
    ///
    /// Most of these types are enums. An enum value is sent as its label.
    static let firstUserDefined: UInt32 = 16384

    /// Types whose binary form is their text.
    static func isText(_ type: UInt32) -> Bool {
        switch type {
        case text, varchar, bpchar, name, json, unknown: true
        default: type >= firstUserDefined
        }
    }

    /// Returns the bytes of a cell, without the version byte of a `jsonb`; nil for a `jsonb` of an unknown version.
    static func content(of bytes: UnsafeRawBufferPointer, _ type: UInt32) -> UnsafeRawBufferPointer? {
        guard type == jsonb else { return bytes }
        return bytes.first == 1 ? UnsafeRawBufferPointer(rebasing: bytes.dropFirst()) : nil
    }
}
