import CLibPQ
import Glibc

/// COPY in both directions, in which a replication stream runs.
extension LibPQConnection {
    enum CopyStep {
        case part, nothing
        /// The server has ended the stream, or the connection is gone.
        ///
        /// The next result shows which.
        case end
    }

    /// Passes on the next part that has arrived, if any.
    func nextCopyPart(
        _ body: (UnsafeRawBufferPointer) throws(PostgresError) -> Void
    ) throws(PostgresError) -> CopyStep {
        var start: UnsafeMutablePointer<CChar>?
        let count = PQgetCopyData(connection, &start, 1)
        defer { PQfreemem(start) }
        guard count > 0 else { return count == 0 ? .nothing : .end }
        try body(UnsafeRawBufferPointer(start: start, count: Int(count)))
        return .part
    }

    /// Buffers a part to be sent; false where the connection is lost.
    func putCopyPart(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { part in
            let start = part.bindMemory(to: CChar.self).baseAddress
            return PQputCopyData(connection, start, Int32(clamping: part.count)) == 1
        }
    }

    /// Bytes that the system has received and that are not read yet.
    ///
    /// Encrypted, where the connection is.
    var bytesWaiting: Int {
        var count: Int32 = 0
        return ioctl(socket, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
    }

    /// Ends the sending from this side.
    func endCopy() -> Bool { PQputCopyEnd(connection, nil) == 1 }
}
