import SyncModel

/// SQL for the sizes of JSON values before they are read.
///
/// To measure the text of a `json` value, PostgreSQL decompresses the value, and a stored kilobyte can be a megabyte of
/// text. Therefore a statement measures compressed values only up to the row at which their sum reaches the limit of
/// the response. All rows before this row are part of the response. Thus, apart from small values, PostgreSQL
/// decompresses at most one row more than the statement returns.
///
/// - A page ends with this row (``stop(when:by:includesExceeding:)``).
/// - Some statements return further rows without their values. These values are measured only if their stored form has
///   at most ``WorkBounds/small`` bytes (``of(_:in:)``).
///
/// The sizes are not stored with the values. Otherwise every writer would have to keep the sizes correct, including a
/// gateway of an earlier version during an upgrade. Older rows would lack sizes.
package enum RowBytes {
    /// Returns SQL for the bytes of a nullable column's text.
    ///
    /// `pg_column_size` returns the stored size, which can be a hundredth of the text's size for a compressed value.
    /// Therefore the server measures the text of compressed values. It measures all other values without reading them.
    package static func of(_ column: String) -> String {
        """
        coalesce(CASE WHEN pg_column_compression(\(column)) IS NULL THEN pg_column_size(\(column)) \
        ELSE octet_length(\(column)::text) END, 0)
        """
    }

    /// Returns SQL for the bytes of a list of UUIDs as JSON.
    static func ofIDs(_ column: String) -> String { "\(WorkBounds.listedID) * coalesce(cardinality(\(column)), 0)" }

    // MARK: - Pages

    /// Returns SQL that counts the rows after the end of a page. A statement returns the page if it selects the rows
    /// with a count of less than 1.
    ///
    /// PostgreSQL stops at the first counted row (a run condition of the plan), and reads no row after it. The stop has
    /// two requirements: a window function over the same `order` sums the bytes, and the measuring expression is the
    /// argument of this `sum`. In a subquery, the expression could be evaluated for all rows before a sort.
    ///
    /// - Parameter includesExceeding: whether the page includes the first row for which `isExceeded` holds.
    package static func stop(when isExceeded: String, by order: String, includesExceeding: Bool) -> String {
        let frame = includesExceeding ? "BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING" : "UNBOUNDED PRECEDING"
        return "count(*) FILTER (WHERE \(isExceeded)) OVER (ORDER BY \(order) ROWS \(frame))"
    }

    // MARK: - Rows without their values

    /// The rows of a statement, as a table expression. Only its first rows are measured.
    struct Rows {
        /// The name of the table expression.
        let table: String
        /// The columns by which the rows are sorted when their values are returned. No two rows have equal values in
        /// all of these columns.
        var order = ["place"]
        /// The columns that are measured together.
        let columns: [String]
        /// A condition that begins with the name of a column. Rows that satisfy it are not measured.
        var skipped: String?
        /// The number of bytes at which measuring ends. The row that reaches this number is still measured.
        let limit: String
    }

    /// Returns SQL for the total bytes of one row's texts in all columns of `rows`. The row has the alias `row`.
    ///
    /// After the last measured row, a row is not measured if it has a compressed value whose stored size exceeds
    /// ``WorkBounds/small`` bytes. For such a row, the result is the stored size. Therefore the row is never treated as
    /// a small row, and exceeds the limit in any case.
    ///
    /// PostgreSQL runs the subquery once, and only if there is such a value. The subquery ends at the last measured
    /// row.
    static func of(_ rows: Rows, in row: String) -> String {
        let columns = rows.columns.map { "\(row).\($0)" }
        let isLarge = columns.map {
            "pg_column_compression(\($0)) IS NOT NULL AND pg_column_size(\($0)) > \(WorkBounds.small)"
        }
        let stored = columns.map { "coalesce(pg_column_size(\($0)), 0)" }
        let order = { (alias: String) in rows.order.map { "\(alias).\($0)" }.joined(separator: ", ") }
        let measured = { (alias: String) in rows.columns.map { of("\(alias).\($0)") }.joined(separator: " + ") }
        return """
            CASE WHEN (\(isLarge.joined(separator: " OR ")))
                AND (\(rows.skipped.map { "\(row).\($0) OR " } ?? "")(\(order(row))) > (
                    SELECT \(order("s"))
                    FROM (
                        SELECT \(order("t")), sum(\(measured("t"))) OVER (
                            ORDER BY \(order("t")) ROWS UNBOUNDED PRECEDING) AS bytes_to
                        FROM \(rows.table) t\(rows.skipped.map { " WHERE NOT t.\($0)" } ?? "")
                    ) s
                    WHERE s.bytes_to >= \(rows.limit)
                    ORDER BY \(order("s"))
                    LIMIT 1
                ))
            THEN \(stored.joined(separator: " + ")) ELSE \(measured(row)) END
            """
    }
}
