import SyncModel

/// SQL for the sizes of JSON values before they are read.
///
/// PostgreSQL decompresses a `json` value to measure its text, and a kilobyte can be a megabyte of text. So no statement
/// measures more compressed values than it needs: it stops at the row with which the values fill the answer. The rows
/// before that row are part of the answer, so a small request cannot make PostgreSQL decompress more than it returns.
///
/// The sizes are not stored with the values: every writer, also a gateway of an earlier version during an upgrade, would
/// have to keep them right, and rows that were written earlier would lack them.
///
/// - A page ends with that row (``stop(when:by:includesExceeding:)``).
/// - A statement that returns further rows without their values measures these values only if they are stored in up to
///   ``WorkBounds/small`` bytes (``of(_:in:)``).
package enum RowBytes {
    /// Returns SQL for the bytes of a nullable column's text.
    ///
    /// `pg_column_size` is the stored size, which for a compressed value can be a hundredth of the text's size. So
    /// compressed values are measured as text on the server, and all other values without reading them.
    package static func of(_ column: String) -> String {
        """
        coalesce(CASE WHEN pg_column_compression(\(column)) IS NULL THEN pg_column_size(\(column)) \
        ELSE octet_length(\(column)::text) END, 0)
        """
    }

    /// Returns SQL for the bytes of a list of UUIDs as JSON.
    static func ofIDs(_ column: String) -> String { "\(WorkBounds.listedID) * coalesce(cardinality(\(column)), 0)" }

    // MARK: - Pages

    /// Returns SQL that counts rows beyond the end of a page, for a column that a page requires to be less than 1.
    ///
    /// PostgreSQL stops at the first row with a count (a run condition of the plan), and reads no row after it. This
    /// works if the sums of bytes are a window in the order `order`, with the measuring expression as the argument of
    /// `sum`. An expression in a subquery below could be evaluated for all rows, before a sort.
    ///
    /// - Parameter includesExceeding: whether the page includes the first row for which `isExceeded` holds.
    package static func stop(when isExceeded: String, by order: String, includesExceeding: Bool) -> String {
        let frame = includesExceeding ? "BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING" : "UNBOUNDED PRECEDING"
        return "count(*) FILTER (WHERE \(isExceeded)) OVER (ORDER BY \(order) ROWS \(frame))"
    }

    // MARK: - Rows without their values

    /// The rows of a statement, as a table expression of which the first rows are measured.
    struct Rows {
        /// The name of the table expression.
        let table: String
        /// The column with the row's place in the order in which values are returned.
        var place = "place"
        /// The columns that are measured together.
        let columns: [String]
        /// A condition on a column, which begins with its name; rows that satisfy it are not measured.
        var skipped: String?
        /// The bytes that end the measuring; the row that reaches them is measured.
        let limit: String
    }

    /// Returns SQL for the bytes of the texts of all columns of `rows` together, in a row with the alias `row`.
    ///
    /// The row is not measured if it is after the last measured row and has a compressed value that is stored in more
    /// than ``WorkBounds/small`` bytes. Then the result is the stored size. So values of up to ``WorkBounds/small`` bytes
    /// are always recognized as such, and the other rows do not fit in any case.
    ///
    /// PostgreSQL runs the subquery once, only if there is such a value, and up to the last measured row.
    static func of(_ rows: Rows, in row: String) -> String {
        let columns = rows.columns.map { "\(row).\($0)" }
        let isLarge = columns.map {
            "pg_column_compression(\($0)) IS NOT NULL AND pg_column_size(\($0)) > \(WorkBounds.small)"
        }
        let stored = columns.map { "coalesce(pg_column_size(\($0)), 0)" }
        let measured = { (alias: String) in rows.columns.map { of("\(alias).\($0)") }.joined(separator: " + ") }
        return """
            CASE WHEN (\(isLarge.joined(separator: " OR ")))
                AND (\(rows.skipped.map { "\(row).\($0) OR " } ?? "")\(row).\(rows.place) > (
                    SELECT s.place
                    FROM (
                        SELECT t.\(rows.place) AS place, sum(\(measured("t"))) OVER (
                            ORDER BY t.\(rows.place) ROWS UNBOUNDED PRECEDING) AS bytes_to
                        FROM \(rows.table) t\(rows.skipped.map { " WHERE NOT t.\($0)" } ?? "")
                    ) s
                    WHERE s.bytes_to >= \(rows.limit)
                    ORDER BY s.place
                    LIMIT 1
                ))
            THEN \(stored.joined(separator: " + ")) ELSE \(measured(row)) END
            """
    }
}
