import CLibPQ
import Synchronization

/// One request to cancel a statement, which a separate thread sends.
///
/// PQcancel connects and waits without a time-out. While a server is stopped or unreachable, it would block the
/// connection's thread, which could then not enforce deadlines.
///
/// While the request is in progress, the connection must not start other work, because the request could cancel that
/// work. The separate thread may outlive the connection while the kernel still tries to connect. It owns only its
/// socket.
final class CancelRequest: Sendable {
    private let sent = Atomic(false)

    var isSent: Bool { sent.load(ordering: .acquiring) }

    init(_ key: CancelKey, then mailbox: Mailbox) {
        let started = DedicatedThread.start("pg-cancel") { [self] in
            key.send()
            sent.store(true, ordering: .releasing)
            mailbox.wake()
        }
        if !started { sent.store(true, ordering: .releasing) }
    }
}

/// Asks the server to cancel a connection's statement.
///
/// It is `@unchecked` because a PGcancel is never changed after its creation, libpq allows any thread to use it, and
/// only this class frees it.
final class CancelKey: @unchecked Sendable {
    private let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { PQfreeCancel(pointer) }

    /// Sends the request and waits until the server has received it.
    func send() {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
            // A failure needs no handling, because the connection is closed if the statement does not end.
            _ = PQcancel(pointer, message.baseAddress, Int32(message.count))
        }
    }
}
