import Synchronization

/// Drives a connection on the threads of its callers, one at a time.
final class DriverInPlace: Sendable {
    private let mailbox: Mailbox
    /// Nil once the session has ended.
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

    /// Ends the session.
    ///
    /// One in progress is ended by its call, which finds the mailbox closing.
    func close() {
        guard driver.withLockIfAvailable({ $0 = nil }) != nil else { return }
        end()
    }

    private func end() {
        mailbox.end(PostgresError(.connectionLost, "the connection is closed"))
    }
}
