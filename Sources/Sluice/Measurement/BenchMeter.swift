import CommandSupport
import FoundationEssentials
import Glibc
import Postgres
import SyncModel
import SyncStore

/// Measures the resources that a stage uses: CPU of this machine, the waits of the gateway's database sessions, and
/// WAL.
///
/// A value is nil if it cannot be measured: on a system without `/proc`, without the privileges, or if the database is
/// on another machine.
struct BenchMeter: Sendable {
    /// A connection that the load does not use.
    let connection: Connection
    /// A time of the database's clock, before the load opened its first connection.
    let since: Timestamp

    init(_ connection: Connection) async throws {
        self.connection = connection
        since = try await connection.run(Query(Self.clockStatement)).read(0, 0)
    }

    /// The counters at a moment. CPU is in seconds.
    struct Reading: Sendable {
        var moment = ContinuousClock.now
        var own = 0.0
        var machine: Double?
        /// The CPU of the database sessions by process; nil if a session is not a process of this machine.
        var sessions: [Int32: Double]?
        /// The position in the WAL, in bytes.
        var wal: Int64?
    }

    func reading() async -> Reading {
        var reading = Reading()
        reading.wal = try? await connection.run(Query(Self.walStatement)).read(0, 0)
        let sessions = (try? await sessions()) ?? []
        let spent = sessions.map { ($0.process, Self.cpu(ofServer: $0.process)) }
        if !spent.isEmpty, !spent.contains(where: { $0.1 == nil }) {
            reading.sessions = Dictionary(spent.map { ($0, $1 ?? 0) }) { first, _ in first }
        }
        reading.moment = .now
        reading.own = Self.ownCPU
        reading.machine = Self.machineCPU
        return reading
    }

    /// Samples the waits of the gateway's sessions every 50 ms, and returns the number of samples of each wait.
    ///
    /// - Parameter isOver: called before each sample.
    func waits(until isOver: () -> Bool) async -> [BenchWait: Int] {
        var waits: [BenchWait: Int] = [:]
        while !isOver() {
            for session in (try? await sessions()) ?? [] {
                if let wait = BenchWait(session.state, session.type, session.event) { waits[wait, default: 0] += 1 }
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return waits
    }

    private struct Session: Sendable {
        let process: Int32
        let state: String?
        let type: String?
        let event: String?
    }

    private func sessions() async throws -> [Session] {
        try await connection.run(Self.sessionsStatement(since: since)).read { row in
            Session(
                process: try row.read("pid"),
                state: try row.read("state"),
                type: try row.read("wait_event_type"),
                event: try row.read("wait_event")
            )
        }
    }

    // MARK: - Commits

    /// Returns two medians in milliseconds: the time of a commit that the database writes to its disk, and the time of
    /// a request that changes nothing.
    ///
    /// The difference of the two medians is the time of the WAL's flush. If commits wait for a replica's confirmation,
    /// the difference includes this wait.
    func commitTimes(samples: Int = 40) async -> (commit: Double, roundTrip: Double)? {
        do {
            var times: [[Double]] = [[], []]
            for _ in 0..<samples {
                for (index, statement) in [Self.commitStatement, Self.clockStatement].enumerated() {
                    let start = ContinuousClock.now
                    _ = try await connection.run(Query(statement))
                    times[index].append((.now - start) / .milliseconds(1))
                }
            }
            let medians = times.map { $0.sorted()[samples / 2] }
            return (medians[0], medians[1])
        } catch {
            return nil
        }
    }

    // MARK: - This machine

    /// The CPU time of this process.
    static var ownCPU: Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    /// The busy time of all cores, including the time that the host gave to other machines.
    private static var machineCPU: Double? {
        guard let line = text(of: "/proc/stat")?.split(separator: "\n").first(where: { $0.hasPrefix("cpu ") }) else {
            return nil
        }
        let ticks = line.split(separator: " ").dropFirst().prefix(8).compactMap { Double($0) }
        // user, nice, system, idle, iowait, irq, softirq, steal
        guard ticks.count == 8 else { return nil }
        return (ticks.reduce(0, +) - ticks[3] - ticks[4]) / ticksPerSecond
    }

    /// The CPU time of a PostgreSQL process of this machine; nil if there is no such process.
    private static func cpu(ofServer process: Int32) -> Double? {
        guard let text = text(of: "/proc/\(process)/stat"), let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[end...].split(separator: " ")
        guard text.contains("(postgres"), fields.count > 13, let user = Double(fields[12]),
            let system = Double(fields[13])
        else { return nil }
        return (user + system) / ticksPerSecond
    }

    /// The average number of runnable tasks in the last minute.
    static var loadAverage: Double? { text(of: "/proc/loadavg")?.split(separator: " ").first.flatMap { Double($0) } }

    /// The number of cores to which a control group limits this process, such as a container's CPU limit; nil if there
    /// is no limit.
    static var coreLimit: Double? {
        guard let fields = text(of: "/sys/fs/cgroup/cpu.max")?.trimmed.split(separator: " "), fields.count == 2,
            let quota = Double(fields[0]), let period = Double(fields[1]), period > 0
        else { return nil }
        return quota / period
    }

    private static let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))

    private static func text(of path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }

    // MARK: - Statements

    private static let clockStatement = Statement("bench_clock", "SELECT clock_timestamp()")

    private static let walStatement = Statement(
        "bench_wal",
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 AS bytes"
    )

    /// A transaction that writes a record of 300 bytes to the WAL and nothing else.
    private static let commitStatement = Statement(
        "bench_commit",
        "SELECT pg_logical_emit_message(true, 'sluice bench', repeat('x', 300))::text AS position"
    )

    /// The sessions that this run opened. A role sees its own sessions without further rights.
    private static let sessionsStatement = Statement(
        "bench_sessions",
        ["since"],
        """
        SELECT a.pid, a.state, a.wait_event_type, a.wait_event FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
            AND a.application_name IN ('sluice', 'sluice direct') AND a.backend_start >= :since
        LIMIT 500
        """
    )
}

/// The activity of a session with an open transaction at a moment.
enum BenchWait: String, Sendable, CaseIterable {
    /// Uses a core, or waits for a free core.
    case running
    /// Writes WAL to the disk, or waits for a session that writes it.
    case flush
    /// Waits until a standby has confirmed a commit.
    case standby
    /// Reads or writes tables and indexes.
    case tables
    case lock
    /// Waits for the gateway's next statement.
    case gateway
    case other

    /// - Parameters: the columns `state`, `wait_event_type` and `wait_event` of `pg_stat_activity`.
    /// - Returns: nil for an idle session.
    init?(_ state: String?, _ type: String?, _ event: String?) {
        switch state {
        case "active": break
        case "idle in transaction":
            self = .gateway
            return
        default: return nil
        }
        // PostgreSQL 17 changed the spelling: WALSync became WalSync
        let isWAL = event?.lowercased().hasPrefix("wal") ?? false
        switch type {
        case nil: self = .running
        case "IO", "LWLock": self = isWAL ? .flush : type == "IO" ? .tables : .other
        case "IPC": self = event == "SyncRep" ? .standby : .other
        case "Lock": self = .lock
        case "Client": self = .gateway
        default: self = .other
        }
    }
}
