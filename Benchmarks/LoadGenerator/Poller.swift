import CEpoll
import Glibc

/// Reports the sockets that are ready (epoll).
struct Poller {
    private let descriptor: Int32
    private let events: UnsafeMutableBufferPointer<epoll_event>

    /// Lives as long as the process does.
    init() throws(Failure) {
        descriptor = epoll_create1(0)
        guard descriptor >= 0 else { throw Failure("no epoll: \(Failure.systemText)") }
        events = .allocate(capacity: 256)
    }

    /// Starts to report when a socket is readable, and, if requested, when it is writable.
    func watch(_ socket: Int32, as token: Int, writing: Bool, isNew: Bool) {
        var event = epoll_event()
        event.events = EPOLLIN.rawValue | (writing ? EPOLLOUT.rawValue : 0)
        event.data.u64 = UInt64(token)
        epoll_ctl(descriptor, isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket, &event)
    }

    /// Waits, and calls for each socket with its token.
    func wait(milliseconds: Int32, _ body: (_ token: Int, _ isWritable: Bool) throws(Failure) -> Void) throws(Failure) {
        let count = epoll_wait(descriptor, events.baseAddress, Int32(events.count), milliseconds)
        for index in 0..<max(0, Int(count)) {
            let event = events[index]
            try body(Int(event.data.u64), event.events & EPOLLOUT.rawValue != 0)
        }
    }
}
