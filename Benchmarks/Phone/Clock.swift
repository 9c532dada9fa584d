import Glibc

/// Measures durations.
enum Clock {
    /// The duration of a body in seconds.
    static func seconds(_ body: () async throws -> Void) async rethrows -> Double {
        let began = ContinuousClock.now
        try await body()
        return began.duration(to: .now) / .seconds(1)
    }

    /// The CPU that this process has used, user and system, in seconds.
    static var cpu: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
