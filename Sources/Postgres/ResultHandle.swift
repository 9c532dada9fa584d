import CLibPQ
import Glibc

/// Owns one PGresult.
///
/// The class is `@unchecked` because any thread may read the result: libpq never changes a PGresult that PQgetResult
/// has returned. Only this class owns the result. It never writes to the result, and frees it when the last reference
/// is released.
final class ResultHandle: @unchecked Sendable {
    let pointer: OpaquePointer
    let rows: Int
    let columns: Int

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
        rows = Int(PQntuples(pointer))
        columns = Int(PQnfields(pointer))
    }

    deinit { PQclear(pointer) }

    /// Returns the bytes of a cell; nil for NULL. The cell must exist. The bytes are valid as long as this object
    /// exists.
    func cell(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer? {
        let row = Int32(truncatingIfNeeded: row)
        let column = Int32(truncatingIfNeeded: column)
        if PQgetisnull(pointer, row, column) != 0 { return nil }
        return UnsafeRawBufferPointer(
            start: PQgetvalue(pointer, row, column),
            count: Int(PQgetlength(pointer, row, column))
        )
    }

    func name(_ column: Int) -> String? {
        PQfname(pointer, Int32(truncatingIfNeeded: column)).map { String(cString: $0) }
    }

    func type(_ column: Int) -> UInt32 { PQftype(pointer, Int32(truncatingIfNeeded: column)) }

    /// The command tag, for example `INSERT 0 3`.
    var tag: String { PQcmdStatus(pointer).map { String(cString: $0) } ?? "" }

    var affected: Int { PQcmdTuples(pointer).flatMap { Int(String(cString: $0)) } ?? 0 }
}

extension ResultHandle {
    var outcome: PipelineProgress.Outcome {
        switch PQresultStatus(pointer) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: .success
        case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE: .failure
        case PGRES_PIPELINE_ABORTED: .aborted
        case PGRES_PIPELINE_SYNC: .sync
        default: .unexpected
        }
    }

    /// Returns the error in a result whose outcome is `failure`.
    ///
    /// An error without a SQLSTATE does not come from the server, so the connection is lost. The detail is omitted,
    /// because it may quote whole rows.
    func error(statement: String?, index: Int?) -> PostgresError {
        guard let sqlState = field("C") else {
            let text = PQresultErrorMessage(pointer).map { String(cString: $0) } ?? ""
            let message = LibPQConnection.oneLine(text)
            return PostgresError(.connectionLost, message, statement: statement, statementIndex: index)
        }
        let message = field("M") ?? ""
        let kind = PostgresError.Kind.server(sqlState: sqlState)
        return PostgresError(kind, message, statement: statement, statementIndex: index)
    }

    /// Returns whether a notice that arrived with a COMMIT means that the commit was not replicated.
    ///
    /// If a time-out or a request to cancel ends the wait for a synchronous standby, PostgreSQL commits locally and
    /// sends a warning with SQLSTATE 01000. The text depends on the server's language, so only severity and SQLSTATE
    /// are compared. If the session ends while it waits for the standby, the connection is lost before the result of
    /// the commit arrives.
    static func isCommitWarning(_ notice: OpaquePointer) -> Bool { has("WARNING", "01000", in: notice) }

    /// Whether a notice reports that the server ended the session because its transaction was idle for too long.
    static func isIdleTimeout(_ notice: OpaquePointer) -> Bool { has("FATAL", "25P03", in: notice) }

    private static func has(_ severity: String, _ sqlState: String, in notice: OpaquePointer) -> Bool {
        func has(_ code: Unicode.Scalar, _ value: String) -> Bool {
            PQresultErrorField(notice, Int32(code.value)).map { strcmp($0, value) == 0 } ?? false
        }
        return has("V", severity) && has("C", sqlState)
    }

    /// Returns a field by its letter. Swift does not import libpq's macros for these letters, such as
    /// `PG_DIAG_SQLSTATE` and `PG_DIAG_MESSAGE_PRIMARY`.
    private func field(_ code: Unicode.Scalar) -> String? {
        PQresultErrorField(pointer, Int32(code.value)).map { String(cString: $0) }
    }
}

extension ResultHandle {
    /// Whether COPY in both directions has begun.
    var isCopyBoth: Bool { PQresultStatus(pointer) == PGRES_COPY_BOTH }
}

/// The arrays of pointers that libpq needs. A connection reuses them for all its statements.
struct ValuePointers: ~Copyable {
    private(set) var count = 0
    private(set) var values: UnsafeMutablePointer<UnsafePointer<CChar>?>
    private(set) var lengths: UnsafeMutablePointer<Int32>
    private(set) var formats: UnsafeMutablePointer<Int32>
    private var capacity: Int
    /// The address that represents an empty value. A null pointer would mean NULL.
    private let empty = UnsafeMutablePointer<CChar>.allocate(capacity: 1)

    init(capacity: Int = 64) {
        self.capacity = capacity
        values = .allocate(capacity: capacity)
        lengths = .allocate(capacity: capacity)
        formats = .allocate(capacity: capacity)
        formats.initialize(repeating: 1, count: capacity)
        empty.initialize(to: 0)
    }

    deinit {
        values.deallocate()
        lengths.deallocate()
        formats.deallocate()
        empty.deallocate()
    }

    /// Fills the arrays with the addresses of the values of `parameters` while `body` runs.
    mutating func withValues<Value>(of parameters: Parameters, _ body: (borrowing Self) -> Value) -> Value {
        reserve(parameters.count)
        count = parameters.count
        return parameters.buffer.withUnsafeBytes { bytes in
            for (index, slot) in parameters.slots.enumerated() {
                lengths[index] = Int32(clamping: max(slot.length, 0))
                values[index] = slot.length < 0 ? nil : pointer(to: slot, in: bytes)
            }
            return body(self)
        }
    }

    private func pointer(to slot: Parameters.Slot, in bytes: UnsafeRawBufferPointer) -> UnsafePointer<CChar> {
        guard slot.length > 0, let base = bytes.baseAddress else { return UnsafePointer(empty) }
        return (base + slot.offset).assumingMemoryBound(to: CChar.self)
    }

    private mutating func reserve(_ wanted: Int) {
        guard wanted > capacity else { return }
        values.deallocate()
        lengths.deallocate()
        formats.deallocate()
        capacity = wanted
        values = .allocate(capacity: wanted)
        lengths = .allocate(capacity: wanted)
        formats = .allocate(capacity: wanted)
        formats.initialize(repeating: 1, count: wanted)
    }
}
