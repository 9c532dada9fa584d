import Glibc

/// The times of a run.
enum Clock {
    /// Nanoseconds of a monotonic clock.
    static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Microseconds since 1970.
    static var microsecondsSince1970: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
    }

    /// The CPU that this process has used, user and system, in nanoseconds.
    static var cpu: UInt64 {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
        let microseconds = Int(usage.ru_utime.tv_usec) + Int(usage.ru_stime.tv_usec)
        return UInt64(seconds) * 1_000_000_000 + UInt64(microseconds) * 1000
    }

    /// The present time in RFC 3339, in whole seconds; the milliseconds are written as 000.
    static var timestamp: String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%S.000Z", &parts)
        return String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
