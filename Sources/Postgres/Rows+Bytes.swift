// Values of any length.
extension Rows {
    /// Reads a text, a `json`, a `jsonb` or the label of an enum.
    public func string(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        try required(optionalString(row, column), row, column)
    }

    public func optionalString(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        let accepted = { (type: UInt32) in Wire.isText(type) || type == OID.jsonb }
        guard let bytes = try content(row, column, "text", where: accepted) else { return nil }
        // The server has validated the encoding; connections are always UTF-8.
        return withExtendedLifetime(handle) { String(decoding: bytes, as: UTF8.self) }
    }

    /// Reads the bytes of a `bytea`, text, `json`, `jsonb` or enum label.
    ///
    /// The version byte of a `jsonb` is left out.
    public func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8] {
        try required(optionalBytes(row, column), row, column)
    }

    public func optionalBytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        guard let bytes = try content(row, column, "bytea", where: Rows.isBytes) else { return nil }
        return withExtendedLifetime(handle) { Array(bytes) }
    }

    private static func isBytes(_ type: UInt32) -> Bool {
        type == OID.bytea || type == OID.jsonb || Wire.isText(type)
    }

    /// A cell without the version byte of a `jsonb`.
    private func content(
        _ row: Int,
        _ column: Int,
        _ wanted: StaticString,
        where accepts: (UInt32) -> Bool
    ) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard let bytes = try cell(row, column, wanted, where: accepts) else { return nil }
        guard handle.type(column) == OID.jsonb else { return bytes }
        guard bytes.first == 1 else { throw mismatch(row, column, "jsonb version 1") }
        return UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    }
}
