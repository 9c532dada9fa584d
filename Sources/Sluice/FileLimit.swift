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
    /// - the listeners and the logs
    /// - ``clients`` connections
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
        return least + 2 * sessions + 6 * ProcessInfo.processInfo.activeProcessorCount + clients
    }

    /// The least number of files for connections of clients, and connections to other servers.
    static let clients = 64

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
}

/// The maximum numbers of connections, by kind. All of these connections together are within the limit of open files.
///
/// A process without a free file cannot continue: libdispatch, which runs Swift's tasks, ends the process when it
/// cannot open a file in `/proc`. Therefore no client, and no slow server, may take the last file. If the limit is too
/// low for the settings, all numbers are reduced in proportion.
struct FileShares: Equatable {
    /// The connections of the public listener.
    private(set) var connections: Int
    /// The event streams, in addition to these connections.
    private(set) var listeners: Int
    /// The requests to upstreams.
    private(set) var requests: Int
    /// The connections of the operations listener.
    private(set) var operations: Int
    /// The deliveries to webhooks that run at the same time. Four times as many may wait for responses.
    private(set) var webhooks: Int
    /// The polls that run at the same time. Four times as many may wait for responses.
    private(set) var polls: Int
    /// Whether the limit is too low for the settings.
    let isReduced: Bool

    /// - Parameters:
    ///   - limit: the limit of open files.
    ///   - needed: the number of files that the gateway needs for itself, and for a few clients.
    init(of settings: Settings, limit: Int, needed: Int) {
        let free = max(0, limit - needed + FileLimit.clients)
        let others = min(FileLimit.reserve, free / 3)
        let share = min(1, Double(free - others) / Double(settings.connectionsWanted))
        func reduced(_ number: Int) -> Int { max(1, Int(Double(number) * share)) }
        connections = reduced(settings.maxConnections)
        listeners = connections
        requests = reduced(settings.maxUpstreamRequests)
        operations = min(256, max(8, others / 2))
        webhooks = reduced(settings.maxWebhooks)
        polls = reduced(settings.maxPolls)
        isReduced = share < 1
    }

    static func inForce(_ settings: Settings) -> FileShares {
        FileShares(of: settings, limit: FileLimit.current, needed: FileLimit.needed(by: settings))
    }
}

extension Settings {
    /// The limit of open files that is sufficient for all limits of connections.
    var filesNeeded: Int { connectionsWanted + FileLimit.reserve + FileLimit.needed(by: self) }

    /// The number of connections to clients, upstreams, receivers and sources, if all limits are reached. In addition
    /// to the connections of the public listener, as many event streams are allowed.
    fileprivate var connectionsWanted: Int {
        2 * maxConnections + maxUpstreamRequests + 4 * (maxWebhooks + maxPolls) + maxReplications
    }
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
