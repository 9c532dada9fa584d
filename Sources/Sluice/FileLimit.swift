import Glibc

/// The process's limit of open files, and so of connections.
enum FileLimit {
    static var current: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }

    /// The limit that an unprivileged process may set.
    static var maximum: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_max)
    }

    /// Raises the limit as far as possible; the usual 1,024 is for programs that use select(2).
    static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// Files beside the public listener's connections: database, operations, logs, the runtime's own.
    static let reserve = 512

    /// Listeners to events beside so many connections: as many more, as far as that leaves files for a quarter of the
    /// connections. A device that listens has no other connection most of the time.
    static func listeners(beside connections: Int) -> Int {
        max(reserve, min(connections, current - reserve - connections / 4))
    }
}
