import CLibPQ
import Synchronization

/// A request to cancel a statement. A separate thread sends the request.
///
/// PQcancel connects and waits without a time-out. If the connection's thread called PQcancel while the server is
/// stopped or unreachable, the thread would block and could not enforce deadlines.
///
/// While the request is in progress, the connection must not start other work, because the request could cancel that
/// work. While the kernel still tries to connect, the separate thread may outlive the connection. The thread owns
/// nothing except its socket.
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
/// The class is `@unchecked` because a PGcancel never changes after its creation, libpq allows any thread to use a
/// PGcancel, and only this class frees it.
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
