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
