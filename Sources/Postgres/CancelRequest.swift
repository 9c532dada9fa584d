import CLibPQ
import Synchronization

/// One request to cancel, sent from a separate thread.
///
/// PQcancel connects and waits without a time-out. If a server were stopped or unreachable, it would block the
/// connection's thread, so that the thread could not enforce deadlines.
///
/// While a request is under way, the connection must not start other work, because the request could cancel that work.
/// The separate thread may outlive the connection while the kernel still tries to connect. It holds only its own
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
            // A failure needs no handling: the connection is closed when the statement does not end.
            _ = PQcancel(pointer, message.baseAddress, Int32(message.count))
        }
    }
}
