import SyncModel

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
