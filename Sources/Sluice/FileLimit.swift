import CMalloc
import CommandSupport
import FoundationEssentials
import Glibc

/// The process's limit of open files, which also limits its connections.
enum FileLimit {
    static var current: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }

    /// The highest limit that an unprivileged process may set.
    static var maximum: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_max)
    }

    /// Raises the limit as far as possible. The usual limit of 1,024 is intended for programs that use select(2).
    static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// The number of files that the program needs before its configuration is read.
    static let least = 64

    /// The number of files that a gateway needs to start.
    ///
    /// These files are:
    ///
    /// - the connections to the database, each with a descriptor that wakes its thread
    /// - the runtime's event loops, with three files each
    /// - the listeners, the logs and the first clients
    static func needed(by settings: Settings) -> Int {
        needed(pool: settings.databasePoolSize, committers: settings.committers)
    }

    /// The number of files that a gateway with the default settings needs to start.
    private static var neededByDefault: Int {
        func number(_ setting: Setting) -> Int { setting.fallback.flatMap { Int($0) } ?? 0 }
        return needed(pool: number(.databasePoolSize), committers: number(.committers))
    }

    private static func needed(pool: Int, committers: Int) -> Int {
        let sessions = pool + 2 * committers + 6
        return least + 2 * sessions + 6 * ProcessInfo.processInfo.activeProcessorCount
    }

    /// Raises the limit, and fails if it is still too low.
    ///
    /// Without a descriptor for a listener or an event loop, the gateway would wait forever.
    ///
    /// - Parameter settings: the settings; nil before they are read.
    static func require(for settings: Settings? = nil) throws {
        raise()
        let needed = settings.map(needed(by:)) ?? least
        let limit = current
        guard limit < needed else { return }
        // the limit that the next start needs; before the settings are read, the default settings are assumed
        let minimum = max(needed, settings == nil ? neededByDefault : 0)
        throw Terminal.failure(
            "this process may open \(limit) files, but needs at least \(minimum); raise the limit of open files, for"
                + " example with ulimit -n, LimitNOFILE= (systemd) or --ulimit nofile= (Docker)",
            Terminal.badConfiguration
        )
    }

    /// The number of files in addition to the public listener's connections: for database, operations, logs and
    /// runtime.
    static let reserve = 512

    /// Returns the number of event listeners that are allowed in addition to a number of connections.
    ///
    /// As many listeners as connections are allowed, if the remaining files are sufficient for the reserve and a quarter
    /// of the connections. Otherwise fewer listeners are allowed, but at least ``reserve``. A quarter of the connections
    /// is sufficient, because a device that listens for events usually has no other connection.
    static func listeners(inAdditionTo connections: Int) -> Int {
        max(reserve, min(connections, current - reserve - connections / 4))
    }
}

extension Settings {
    /// The maximum number of files that are open at the same time: connections of clients, connections to upstreams,
    /// and the reserve.
    var filesNeeded: Int { maxConnections + maxUpstreamRequests + FileLimit.reserve }
}

/// Settings of the C library's allocator.
enum Allocator {
    /// Keeps freed memory in few heaps.
    ///
    /// Each arena of glibc keeps memory that other arenas could use, and there are up to eight arenas per core. Two
    /// arenas are sufficient for this process.
    static func useFewArenas() {
        _ = mallopt(M_ARENA_MAX, 2)
    }
}
