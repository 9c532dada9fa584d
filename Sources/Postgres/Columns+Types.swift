public import FoundationEssentials

// A column of a type, from each row's value for it; nil is NULL. Inlined where they are used: the value closure is
// compiled into the loop over the rows.
extension Columns {
    @inlinable public static func uuid(_ name: String, _ value: @escaping @Sendable (Row) -> UUID) -> Self {
        Self(name, "uuid") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func uuid(_ name: String, _ value: @escaping @Sendable (Row) -> UUID?) -> Self {
        Self(name, "uuid", optional: value) { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int8(_ name: String, _ value: @escaping @Sendable (Row) -> Int64) -> Self {
        Self(name, "int8") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int8(_ name: String, _ value: @escaping @Sendable (Row) -> Int64?) -> Self {
        Self(name, "int8", optional: value) { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int4(_ name: String, _ value: @escaping @Sendable (Row) -> Int32) -> Self {
        Self(name, "int4") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int4(_ name: String, _ value: @escaping @Sendable (Row) -> Int32?) -> Self {
        Self(name, "int4", optional: value) { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int2(_ name: String, _ value: @escaping @Sendable (Row) -> Int16) -> Self {
        Self(name, "int2") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func int2(_ name: String, _ value: @escaping @Sendable (Row) -> Int16?) -> Self {
        Self(name, "int2", optional: value) { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func bool(_ name: String, _ value: @escaping @Sendable (Row) -> Bool) -> Self {
        Self(name, "bool") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func text(_ name: String, _ value: @escaping @Sendable (Row) -> String) -> Self {
        Self(name, "text") { rows, parameters in parameters.add(rows.map(value)) }
    }

    @inlinable public static func text(_ name: String, _ value: @escaping @Sendable (Row) -> String?) -> Self {
        Self(name, "text", optional: value) { rows, parameters in parameters.add(rows.map(value)) }
    }

    /// Microseconds since the Unix epoch.
    @inlinable public static func timestamp(_ name: String, _ value: @escaping @Sendable (Row) -> Int64) -> Self {
        Self(name, "timestamptz") { rows, parameters in parameters.add(timestamps: rows.map(value)) }
    }

    @inlinable public static func timestamp(_ name: String, _ value: @escaping @Sendable (Row) -> Int64?) -> Self {
        Self(name, "timestamptz", optional: value) { rows, parameters in parameters.add(timestamps: rows.map(value)) }
    }

    @inlinable public static func bytes(_ name: String, _ value: @escaping @Sendable (Row) -> [UInt8]?) -> Self {
        Self(name, "bytea", optional: value) { rows, parameters in parameters.add(byteas: rows.map(value)) }
    }

    /// UTF-8 text, stored as it is.
    @inlinable public static func json(_ name: String, _ value: @escaping @Sendable (Row) -> [UInt8]?) -> Self {
        Self(name, "json", optional: value) { rows, parameters in parameters.add(jsons: rows.map(value)) }
    }

    @inlinable
    public static func json(_ name: String, _ value: @escaping @Sendable (Row) -> ArraySlice<UInt8>?) -> Self {
        Self(name, "json", optional: value) { rows, parameters in parameters.add(jsons: rows.map(value)) }
    }
}
