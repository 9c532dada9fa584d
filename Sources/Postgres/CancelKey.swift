import CLibPQ
import Synchronization

/// Asks the server to cancel a connection's statement.
///
/// Unchecked: a PGcancel is never written to after it is made, libpq lets any thread use it, and this class alone
/// frees it.
final class CancelKey: @unchecked Sendable {
    private let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { PQfreeCancel(pointer) }

    /// Waits until the server has received the request.
    func send() {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
            // A failure needs no answer: the connection is closed when the statement does not end.
            _ = PQcancel(pointer, message.baseAddress, Int32(message.count))
        }
    }
}
