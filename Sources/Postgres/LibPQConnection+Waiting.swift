import Glibc

/// Connecting and waiting, on a thread that does nothing else during it.
extension LibPQConnection {
    /// Connects and authenticates; sends and receives do not wait from then on.
    ///
    /// - Parameter wait: waits for the socket to be ready, and returns whether it is; may throw to give up.
    func connect(
        within limit: Duration,
        wait: (_ events: Int32, _ deadline: ContinuousClock.Instant) throws(PostgresError) -> Bool
    ) throws(PostgresError) {
        let deadline = ContinuousClock.now + limit
        // libpq requires that its first step is treated as if it wanted to write.
        var step = ConnectStep.writing
        while !hasFailed {
            switch step {
            case .connected:
                usePlainErrors()
                guard setNonBlocking() else { throw PostgresError(.unavailable, message) }
                return
            case .failed:
                throw PostgresError(ConnectFailure.read(fullMessage))
            case .reading, .writing:
                if ContinuousClock.now >= deadline {
                    throw PostgresError(ConnectFailure.read("connecting took too long"))
                }
                if try wait(step == .reading ? POLLIN : POLLOUT, deadline) { step = connectStep() }
            }
        }
        throw PostgresError(ConnectFailure.read(fullMessage))
    }

    /// Waits for the socket, a signal or the deadline.
    func wait(
        for events: Int32,
        or wakeUp: WakeUp,
        until deadline: ContinuousClock.Instant?
    ) -> (isReady: Bool, isSignalled: Bool) {
        var descriptors = [
            pollfd(fd: socket, events: Int16(events), revents: 0),
            pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        let ready = poll(&descriptors, 2, deadline.map(Self.milliseconds) ?? -1)
        return (ready > 0 && descriptors[0].revents != 0, ready > 0 && descriptors[1].revents != 0)
    }

    /// The time left in whole milliseconds, rounded up.
    ///
    /// So waiting does not end just before the deadline.
    private static func milliseconds(until deadline: ContinuousClock.Instant) -> Int32 {
        let left = (deadline - ContinuousClock.now) / .milliseconds(1)
        return Int32(min(max(left.rounded(.up), 0), 60_000))
    }
}
