import CommandSupport
import JSONText
import SyncModel

/// The results of `sluice bench`.
struct BenchReport: Sendable {
    var postgres = ""
    var machine = BenchMachine()
    /// The times of a small commit and of its flush in milliseconds; nil if they cannot be measured.
    var commit: (total: Double, flush: Double)?
    var stages: [Stage] = []
    var assumptions = BenchAssumptions()
    /// Facts that make the measured numbers unreliable.
    var remarks: [String] = []

    struct Stage: Sendable {
        let stage: BenchStage
        let pushes: Int
        let rate: Double
        let p50: Double?
        let p99: Double?
        let refusals: [ProblemCode: Int]
        let use: BenchUse

        init(_ stage: BenchStage, _ tally: BenchTally, _ use: BenchUse) {
            let sorted = tally.latencies.sorted()
            self.stage = stage
            pushes = sorted.count
            rate = tally.rate
            p50 = BenchTally.percentile(0.5, of: sorted)
            p99 = BenchTally.percentile(0.99, of: sorted)
            refusals = tally.refusals
            self.use = use
        }
    }

    /// The stage whose rate determines the number of users: single pushes of many devices.
    var decisive: Stage? { stages.first { $0.stage.name == "concurrent" } }
}

/// The cores that the gateway can use.
struct BenchMachine: Sendable {
    /// The number of the machine's cores.
    var cores = 1
    /// The number of cores to which a control group limits the process; nil if there is no limit.
    var limit: Double?
}

/// The resources that a stage used per second, and the reasons why its database sessions waited.
struct BenchUse: Sendable {
    /// Cores that this process used.
    var own = 0.0
    /// Cores that the gateway's database sessions used; nil if the database is on another machine.
    var sessions: Double?
    /// Cores of this machine that were busy.
    var busy: Double?
    var walPerMutation: Double?
    /// The number of samples of each wait of the sessions.
    var waits: [BenchWait: Int] = [:]

    init() {}

    init(_ before: BenchMeter.Reading, _ after: BenchMeter.Reading, _ waits: [BenchWait: Int], mutations: Int) {
        let seconds = max((after.moment - before.moment) / .seconds(1), 1e-9)
        own = (after.own - before.own) / seconds
        if let first = before.machine, let last = after.machine { busy = (last - first) / seconds }
        if let last = after.sessions {
            let first = before.sessions ?? [:]
            sessions = last.reduce(0) { $0 + $1.value - (first[$1.key] ?? 0) } / seconds
        }
        if let first = before.wal, let last = after.wal, mutations > 0 {
            walPerMutation = Double(last - first) / Double(mutations)
        }
        self.waits = waits
    }

    /// The share of a wait in all waits, 0 to 1.
    func share(_ wait: BenchWait) -> Double {
        let all = waits.values.reduce(0, +)
        return all == 0 ? 0 : Double(waits[wait] ?? 0) / Double(all)
    }
}

/// The resource that limits the rate of a stage.
enum BenchLimit: String, Sendable, CaseIterable {
    case gatewayCPU = "gateway_cpu"
    case machineCPU = "machine_cpu"
    case databaseCPU = "database_cpu"
    case flush = "wal_flush"
    case standby
    case tables = "table_io"
    case locks
    case roundTrips = "round_trips"
    case unknown

    /// If this share of the cores or more is busy, the CPU is the limit. Because of scheduling, the rest stays idle.
    static let busyShare = 0.85

    /// - Returns: the CPU of this machine if it is busy, otherwise the most frequent wait of the database sessions.
    static func of(_ use: BenchUse, on machine: BenchMachine) -> BenchLimit {
        if let limit = machine.limit, limit < Double(machine.cores), use.own >= busyShare * limit { return .gatewayCPU }
        if let busy = use.busy, busy >= busyShare * Double(machine.cores) {
            return use.own >= 0.7 * busy ? .gatewayCPU : .machineCPU
        }
        guard let wait = BenchWait.allCases.max(by: { use.share($0) < use.share($1) }), use.share(wait) > 0 else {
            return .unknown
        }
        switch wait {
        case .running: return .databaseCPU
        case .flush: return .flush
        case .standby: return .standby
        case .tables: return .tables
        case .lock: return .locks
        case .gateway: return .roundTrips
        case .other: return .unknown
        }
    }

    var finding: String {
        switch self {
        case .gatewayCPU: "the gateway's CPU"
        case .machineCPU: "this machine's CPU, which the gateway shares with the database or with other programs"
        case .databaseCPU: "the database's CPU"
        case .flush: "the disk of the database, which flushes the WAL for each commit"
        case .standby: "the standby, whose confirmation each commit awaits"
        case .tables: "the disk of the database, which reads and writes tables"
        case .locks: "locks that other transactions have"
        case .roundTrips: "the time between the gateway and the database: the network, or the gateway's scheduling"
        case .unknown: "not determined"
        }
    }

    var advice: String? {
        switch self {
        case .gatewayCPU: "Add cores, or gateways."
        case .machineCPU: "Add cores, or move the database to another machine."
        case .databaseCPU:
            "Add cores to the database's machine. If it has idle ones, raise \(Setting.committers.variable)."
        case .flush: "Use a disk with faster flushes. More connections share a flush, so the rate may still grow."
        case .standby: "Use a nearer standby, or a weaker synchronous_commit, which can lose acknowledged pushes."
        case .tables: "Give the database more memory (shared_buffers), or a faster disk."
        case .locks: "Measure again without other load; see pg_stat_activity."
        case .roundTrips:
            "Place the gateway near the database. If its machine is idle, raise \(Setting.committers.variable)."
        case .unknown: nil
        }
    }
}

/// The assumptions by which a rate of mutations is converted into a number of users.
struct BenchAssumptions: Sendable {
    /// Edits of an active user in a day.
    var editsPerDay = 50
    /// The rate of the busiest minute, divided by the mean rate of the day.
    var peakFactor = 10
    /// The share of the measured rate that the busiest minute may use.
    static let utilization = 0.5

    /// Returns the number of active users, rounded down to two digits. In their busiest minute, they use half of the
    /// rate.
    func users(at rate: Double) -> Int {
        let users = rate * Self.utilization * 86_400 / Double(editsPerDay * peakFactor)
        guard users >= 1, users < 1e15 else { return 0 }
        var unit = 1
        while users / Double(unit) >= 100 { unit *= 10 }
        return Int(users) / unit * unit
    }
}

// MARK: - Output

extension BenchReport {
    /// The output for people.
    var text: String {
        var lines = ["", "PostgreSQL \(postgres), \(place); \(cores)"]
        if let commit {
            let flush = "\(Self.decimal(commit.flush)) ms of it to flush the WAL"
            lines.append("a commit of one small record: \(Self.decimal(commit.total)) ms, \(flush)")
        }
        lines += ["", Self.row("", "mutations/s", "p50", "p99")]
        lines += stages.map { stage in
            Self.row(Self.title(stage.stage), Self.whole(stage.rate), Self.time(stage.p50), Self.time(stage.p99))
        }
        for stage in stages.dropFirst() {
            let limit = BenchLimit.of(stage.use, on: machine)
            lines += ["", "\(Self.title(stage.stage)), limited by \(limit.finding):", "  " + Self.used(stage.use)]
            if let advice = limit.advice { lines.append("  \(advice)") }
        }
        if let decisive {
            let users = assumptions.users(at: decisive.rate)
            let percent = Self.whole(BenchAssumptions.utilization * 100)
            lines += [
                "", "enough for about \(Self.whole(Double(users))) active users a day:",
                "  an active user makes about \(assumptions.editsPerDay) edits a day,"
                    + " and the busiest minute has \(assumptions.peakFactor) times the mean rate;",
                "  that minute may use \(percent) % of the measured rate",
                "HTTP, TLS, pulls and upstreams are not measured: see docs/sizing.md",
            ]
        }
        return (lines + remarks.map { "note: \($0)" }).joined(separator: "\n")
    }

    private var place: String {
        stages.contains { $0.use.sessions != nil }
            ? "on this machine" : "on another machine, in a container, or without access to /proc"
    }

    private var cores: String {
        let limit = machine.limit.map { ", of which this process may use \(Self.decimal($0))" } ?? ""
        return "this machine has \(machine.cores) cores\(limit)"
    }

    private static func title(_ stage: BenchStage) -> String {
        let pushes = stage.mutations == 1 ? "" : ", pushes of \(stage.mutations)"
        guard stage.connections > 1 else {
            return stage.mutations == 1 ? "one push at a time" : "1 connection" + pushes
        }
        return "\(stage.connections) connections" + pushes
    }

    /// Cores and waits, such as `gateway 0.8 cores, database sessions 1.0, everything on this machine 2.0; sessions:
    /// running 70 %, flush 20 %`.
    private static func used(_ use: BenchUse) -> String {
        var cores = ["gateway \(decimal(use.own)) cores"]
        if let sessions = use.sessions { cores.append("database sessions \(decimal(sessions))") }
        if let busy = use.busy { cores.append("everything on this machine \(decimal(busy))") }
        let waits = BenchWait.allCases.filter { use.share($0) >= 0.05 }
            .map { "\($0.rawValue) \(whole(use.share($0) * 100)) %" }
        return cores.joined(separator: ", ") + (waits.isEmpty ? "" : "; sessions: " + waits.joined(separator: ", "))
    }

    private static func row(_ title: String, _ rate: String, _ p50: String, _ p99: String) -> String {
        func right(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(1, width - text.count)) + text
        }
        let padding = String(repeating: " ", count: max(0, 32 - title.count))
        return title + padding + right(rate, 12) + right(p50, 12) + right(p99, 12)
    }

    private static func time(_ milliseconds: Double?) -> String { milliseconds.map { "\(decimal($0)) ms" } ?? "-" }

    /// Returns a number with one decimal, or with two decimals if it is below 1.
    static func decimal(_ number: Double) -> String {
        let unit: Double = abs(number) < 1 ? 100 : 10
        return "\((number * unit).rounded() / unit)"
    }

    /// Returns a number with commas between thousands.
    static func whole(_ number: Double) -> String {
        let digits = Array(String(Int(number.rounded())))
        let groups = stride(from: digits.count, to: 0, by: -3).map { String(digits[max(0, $0 - 3)..<$0]) }
        return groups.reversed().joined(separator: ",")
    }
}

extension BenchReport {
    /// Writes the JSON output, with times in milliseconds, CPU use in cores, and shares from 0 to 1.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("version", Version.current)
        writer.member("postgres", postgres)
        writer.member("cores", machine.cores)
        writer.member("core_limit", raw: machine.limit.map(Self.number))
        writer.member("commit_ms", raw: commit.map { Self.number($0.total) })
        writer.member("flush_ms", raw: commit.map { Self.number($0.flush) })
        writer.name("stages")
        writer.beginArray()
        for stage in stages { writer.object { write(stage, to: &$0) } }
        writer.endArray()
        if let decisive {
            writer.member("active_users", assumptions.users(at: decisive.rate))
            writer.member("limit", BenchLimit.of(decisive.use, on: machine).rawValue)
        }
        writer.member("edits_per_day", assumptions.editsPerDay)
        writer.member("peak_factor", assumptions.peakFactor)
        writer.member("utilization", raw: Self.number(BenchAssumptions.utilization))
        writer.name("remarks")
        writer.beginArray()
        for remark in remarks { writer.string(remark) }
        writer.endArray()
    }

    private func write(_ stage: Stage, to writer: inout JSONWriter) {
        writer.member("name", stage.stage.name)
        writer.member("connections", stage.stage.connections)
        writer.member("mutations_per_push", stage.stage.mutations)
        writer.member("pushes", stage.pushes)
        writer.member("mutations_per_second", raw: Self.number(stage.rate))
        writer.member("p50_ms", raw: stage.p50.map(Self.number))
        writer.member("p99_ms", raw: stage.p99.map(Self.number))
        writer.member(
            "refused",
            object: { refused in
                for (code, count) in stage.refusals.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                    refused.name(code.rawValue)
                    refused.int(count)
                }
            }
        )
        writer.member("gateway_cores", raw: Self.number(stage.use.own))
        writer.member("database_cores", raw: stage.use.sessions.map(Self.number))
        writer.member("busy_cores", raw: stage.use.busy.map(Self.number))
        writer.member("wal_bytes_per_mutation", raw: stage.use.walPerMutation.map(Self.number))
        writer.member(
            "sessions",
            object: { sessions in
                for wait in BenchWait.allCases where stage.use.share(wait) > 0 {
                    sessions.name(wait.rawValue)
                    sessions.raw(Self.number(stage.use.share(wait)))
                }
            }
        )
        writer.member("limit", BenchLimit.of(stage.use, on: machine).rawValue)
    }

    /// Returns a number with up to three decimals.
    private static func number(_ number: Double) -> [UInt8] { Array("\((number * 1_000).rounded() / 1_000)".utf8) }
}
