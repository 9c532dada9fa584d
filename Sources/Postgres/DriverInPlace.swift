import CLibPQ
import Glibc
import Synchronization

/// Drives a connection on the threads of its callers, one caller at a time.
final class DriverInPlace: Sendable {
    private let mailbox: Mailbox
    /// The driver; nil after the session has ended.
    private let driver: Mutex<ConnectionDriver?>

    /// Connects.
    init(_ configuration: ConnectionConfiguration, _ mailbox: Mailbox) throws(PostgresError) {
        self.mailbox = mailbox
        driver = Mutex(try ConnectionDriver.open(configuration, mailbox))
    }

    deinit { end() }

    func perform(_ work: Job.Work, _ limits: Limits) -> Job.Outcome {
        driver.withLock { driver in
            guard let session = driver, mailbox.isUsable else {
                return .failure(PostgresError(.connectionLost, "the connection is closed"))
            }
            let (outcome, isAlive) = session.perform(work, limits)
            if !isAlive {
                driver = nil
                end()
            }
            return outcome
        }
    }

    /// Ends the session. If a call is in progress, the call ends the session when it detects that the mailbox is
    /// closing.
    func close() {
        guard driver.withLockIfAvailable({ $0 = nil }) != nil else { return }
        end()
    }

    private func end() {
        mailbox.end(PostgresError(.connectionLost, "the connection is closed"))
    }
}

/// Runs blocking work on a separate thread, away from Swift's cooperative pool.
package enum DedicatedThread {
    /// The stack size of a thread for libpq.
    ///
    /// libpq and the callbacks need little stack. The default of 8 MiB would reserve address space that is never used.
    package static let shallowStack = 512 * 1024

    private final class Work {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
    }

    /// Starts a detached thread; returns `false` if the system has no more threads.
    package static func start(
        _ name: String,
        stackSize: Int = shallowStack,
        _ body: @escaping @Sendable () -> Void
    ) -> Bool {
        var attributes = pthread_attr_t()
        guard pthread_attr_init(&attributes) == 0 else { return false }
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, stackSize)
        let work = Unmanaged.passRetained(Work(String(name.prefix(15)), body))
        var thread = pthread_t()
        let failure = pthread_create(
            &thread,
            &attributes,
            { argument in
                guard let argument else { return nil }
                let work = Unmanaged<Work>.fromOpaque(argument).takeRetainedValue()
                // only the thread itself may use its handle, because the memory of a detached thread that has ended is
                // no longer mapped
                pthread_setname_np(pthread_self(), work.name)
                work.body()
                return nil
            },
            work.toOpaque()
        )
        guard failure == 0 else {
            work.release()
            return false
        }
        return true
    }
}
