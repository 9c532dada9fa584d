import FoundationEssentials

/// Reads single values of the binary format. Every function checks the length, so nothing is read out of bounds.
enum Wire {
    static func load<Value: FixedWidthInteger>(_ bytes: UnsafeRawBufferPointer, as type: Value.Type) -> Value? {
        guard bytes.count == MemoryLayout<Value>.size else { return nil }
        return Value(bigEndian: bytes.loadUnaligned(as: type))
    }

    static func uuid(_ bytes: UnsafeRawBufferPointer) -> UUID? {
        guard bytes.count == MemoryLayout<uuid_t>.size else { return nil }
        return UUID(uuid: bytes.loadUnaligned(as: uuid_t.self))
    }

    static func integerSize(_ type: UInt32) -> Int? {
        switch type {
        case OID.int8: 8
        case OID.int4, OID.oid: 4
        case OID.int2: 2
        default: nil
        }
    }

    static func integer(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Int64? {
        switch type {
        case OID.int8: load(bytes, as: Int64.self)
        case OID.int4: load(bytes, as: Int32.self).map(Int64.init)
        case OID.oid: load(bytes, as: UInt32.self).map(Int64.init)
        case OID.int2: load(bytes, as: Int16.self).map(Int64.init)
        default: nil
        }
    }

    /// Types whose binary form is their text.
    static func isText(_ type: UInt32) -> Bool {
        switch type {
        case OID.text, OID.varchar, OID.bpchar, OID.name, OID.json, OID.unknown: true
        default: type >= OID.firstUserDefined
        }
    }
}

/// The numbers of the built-in types that this target can send or read. They never change between servers.
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

    static let boolArray: UInt32 = 1000
    static let byteaArray: UInt32 = 1001
    static let int2Array: UInt32 = 1005
    static let int4Array: UInt32 = 1007
    static let textArray: UInt32 = 1009
    static let int8Array: UInt32 = 1016
    static let timestamptzArray: UInt32 = 1185
    static let jsonArray: UInt32 = 199
    static let uuidArray: UInt32 = 2951

    /// Types at and above this number belong to the database.
    ///
    /// Enums above all, which are sent as their label.
    static let firstUserDefined: UInt32 = 16384
}
