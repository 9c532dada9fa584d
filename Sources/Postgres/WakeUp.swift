import CLibPQ
import Glibc

/// An eventfd: any thread may signal it, one thread polls it.
final class WakeUp: Sendable {
    /// For polling.
    ///
    /// Closed with the last reference to this object, so never while a thread may still signal it.
    let descriptor: Int32

    init?() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if descriptor < 0 { return nil }
    }

    deinit { _ = close(descriptor) }

    func signal() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then a signal is pending anyway.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
    }
}
