import CLibPQ

/// Owns one PGresult.
///
/// Unchecked: libpq never changes a PGresult that PQgetResult has handed out, this class is its only owner and never
/// writes to it, and it is freed with the last reference. So any thread may read it.
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

    /// The bytes of a cell, `nil` for NULL. The cell must exist, and the bytes live as long as this object.
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
