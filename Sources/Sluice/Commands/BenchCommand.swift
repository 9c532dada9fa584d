import ArgumentParser
import CommandSupport
import FoundationEssentials
import Glibc
import Postgres
import SyncModel
import SyncStore
import Synchronization
import UnixSignals

struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure how many mutations per second this installation accepts, and what limits it.",
        usage: "sluice bench [--seconds <seconds>] [--yes] [<options>]",
        discussion: """
            EXAMPLES
              sluice bench
              sluice bench --seconds 10 --edits-per-day 200
              sluice bench --yes --json | jq '.limit, .active_users'

            Loads the database as much as it can, so run it before gateways start, or at a quiet time. Run it on the \
            gateway's machine with the gateway's settings. It creates \(BenchTenants.count) temporary organizations, \
            pushes to them through the gateway's engine in this process, and purges them at the end: also after \
            Ctrl-C or an error. If it is killed, the next run purges them. No user can push to them, and no other \
            organization is touched.

            It pushes one mutation at a time, then single mutations over many connections, then pushes of 50. HTTP, \
            TLS and tokens are not part of it; docs/sizing.md states their share. A run writes at most a million \
            mutations, about 2 GB with indexes. Their space remains in the tables, for later rows.

            While gateways run on the database, --yes is required, because their users would notice the load.
            """
                + HelpText.exitCodes([
                    0: "The installation is measured, and the temporary organizations are purged.",
                    1: "Failed or interrupted, or gateways run and --yes is missing; standard error has the reason.",
                    75: "Another run measures this database.",
                ])
    )

    @Option(help: ArgumentHelp("Duration of the measurement, 3 to 600.", valueName: "seconds"))
    var seconds = 30

    @Option(help: ArgumentHelp("Connections that push at the same time, 2 to 512.", valueName: "number"))
    var connections = 64

    @Option(help: ArgumentHelp("Edits of an active user in a day, 1 to 10000.", valueName: "number"))
    var editsPerDay = 50

    @Option(
        help: ArgumentHelp(
            "Rate of the busiest minute, as a multiple of the day's mean rate, 1 to 100.",
            valueName: "number"
        )
    )
    var peakFactor = 10

    @Flag(help: "Measure even if gateways run on the database.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        let bounds = [
            ("--seconds", seconds, 3...600), ("--connections", connections, 2...512),
            ("--edits-per-day", editsPerDay, 1...10_000), ("--peak-factor", peakFactor, 1...100),
        ]
        for (name, value, range) in bounds where !range.contains(value) {
            throw ValidationError("\(name) must be from \(range.lowerBound) to \(range.upperBound).")
        }
    }

    func run() async throws {
        let settings = try await options.options.load()
        try FileLimit.require(for: settings)
        let progress = BenchProgress(isShown: !options.json)
        try await requireNoGateway()
        Terminal.printError(
            "this loads the database as much as it can for \(seconds) seconds, and then while it purges the temporary "
                + "organizations"
        )
        let act = CommandAct("measureInstallation", ["seconds": "\(seconds)"])
        let busy = CommandFailure(.overloaded, "another `sluice bench` measures this database", Terminal.tryAgain)
        let outcome = try await options.withStore(act, orElse: busy, result: { $0.result }) {
            store,
            settings throws(Problem) -> BenchRun.Outcome? in
            let tenants = BenchTenants(administration: store.administration)
            let run = BenchRun(settings: settings, tenants: tenants, command: self, progress: progress)
            do {
                return try await run.exclusively()
            } catch {
                progress.clear()
                throw store.failure.problem(error, doing: "measure the installation")
            }
        }
        guard case .measured(let report) = outcome else { throw Terminal.failure("interrupted") }
        options.output(report.text) { report.writeMembers(to: &$0) }
    }

    private func requireNoGateway() async throws {
        guard !yes else { return }
        let count = try await options.withStore { store, _ throws(Problem) in
            try await BenchTenants(administration: store.administration).runningGateways()
        }
        guard count > 0 else { return }
        let gateways = count == 1 ? "a gateway runs" : "\(count) gateways run"
        throw Terminal.failure("\(gateways) on this database, whose users would notice the load; confirm with --yes")
    }
}

/// A measurement: from the lock of the database to the purge of the temporary organizations.
struct BenchRun: Sendable {
    let settings: Settings
    let tenants: BenchTenants
    let command: BenchCommand
    let progress: BenchProgress

    enum Outcome: Sendable {
        case measured(BenchReport)
        case interrupted

        var result: ActResult {
            switch self {
            case .measured: .whole
            case .interrupted: .failed(.overloaded)
            }
        }
    }

    /// Measures while no other run has the database's lock; returns nil if another run has it.
    func exclusively() async throws -> Outcome? {
        try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
            guard try await acquireLock(on: connection) else { return nil }
            let leftovers = try await tenants.leftovers()
            try await purge(leftovers, "purging the organizations of a killed run")
            return try await measure(connection)
        }
    }

    /// Acquires the lock. If an earlier run was killed, its session may still have the lock for a moment, so the method
    /// tries for two seconds.
    private func acquireLock(on connection: Connection) async throws -> Bool {
        for _ in 0..<20 {
            if try await connection.run(Query(BenchTenants.lockStatement)).read(0, 0) { return true }
            try await Task.sleep(for: .milliseconds(100))
        }
        return false
    }

    /// Measures until the end or a signal. Then purges the temporary organizations in any case.
    private func measure(_ connection: Connection) async throws -> Outcome {
        let ids = BenchTenants.newIDs()
        // before the work begins, because a signal is lost if it arrives while the sequence is being created
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
        let work = Task { try await load(ids, connection) }
        let isInterrupted = BenchFlag()
        let watch = Task {
            for await signal in signals {
                if isInterrupted.set() {
                    Terminal.printError("ended before the purge; the next `sluice bench` purges the organizations")
                    _exit(128 + signal.rawValue)
                }
                work.cancel()
            }
        }
        defer { watch.cancel() }
        let result = await work.result
        do {
            try await purge(ids, "purging")
        } catch {
            Terminal.printError("temporary organizations remain; the next `sluice bench` purges them")
            throw error
        }
        if isInterrupted.isSet { return .interrupted }
        return .measured(try result.get())
    }

    private func purge(_ ids: [UUID], _ what: String) async throws {
        try await tenants.purge(ids) { progress.show("\(what): \($0) of \(ids.count) organizations") }
        progress.clear()
    }

    private func load(_ ids: [UUID], _ connection: Connection) async throws -> BenchReport {
        progress.show("creating \(ids.count) temporary organizations")
        let facts = try await DatabaseFacts(on: connection)
        let meter = try await BenchMeter(connection)
        var report = report(facts)
        report.commit = await meter.commitTimes().map { ($0.commit, max(0, $0.commit - $0.roundTrip)) }
        try await tenants.create(ids)
        let engine = settings.store(logger: .ofCommands())
        do {
            report.stages = try await withThrowingTaskGroup(of: Void.self) { group in
                // pushes run as in a gateway; no dispatcher is needed, because every mutation takes effect immediately
                group.addTask { try await engine.pushes.run() }
                defer { group.cancelAll() }
                return try await stages(of: ids, through: engine, meter)
            }
        } catch {
            await engine.close()
            throw error
        }
        await engine.close()
        return report
    }

    private func report(_ facts: DatabaseFacts) -> BenchReport {
        var report = BenchReport()
        report.postgres = facts.version
        report.machine.cores = ProcessInfo.processInfo.activeProcessorCount
        report.machine.limit = BenchMeter.coreLimit
        report.assumptions.editsPerDay = command.editsPerDay
        report.assumptions.peakFactor = command.peakFactor
        if facts.fsync != "on" || facts.synchronousCommit == "off" {
            report.remarks.append("commits are not flushed (fsync or synchronous_commit is off), which loses data")
        }
        if let load = BenchMeter.loadAverage, load > 0.5 * Double(report.machine.cores) {
            let shown = BenchReport.decimal(load)
            report.remarks.append("other programs used this machine before the start (load average \(shown))")
        }
        return report
    }

    private func stages(of ids: [UUID], through engine: Store, _ meter: BenchMeter) async throws -> [BenchReport.Stage]
    {
        var organizations: [Organization] = []
        for id in ids {
            guard let organization = try await engine.catalog.organization(id) else { continue }
            organizations.append(organization)
        }
        var limits = IntakeLimits()
        limits.mutations = settings.maxMutations
        let load = BenchLoad(engine, organizations: organizations, connections: command.connections, limits: limits)
        try await load.prepare()
        let plan = BenchStage.all(
            seconds: command.seconds,
            connections: command.connections,
            maximumMutations: settings.maxMutations
        )
        var stages: [BenchReport.Stage] = []
        for (index, stage) in plan.enumerated() {
            let before = await meter.reading()
            let isOver = BenchFlag()
            // not a child task, because a cancelled query could end the connection, which has the lock
            let watching = Task {
                await meter.waits {
                    progress.show("stage \(index + 1) of \(plan.count): \(load.pushed) mutations pushed")
                    return isOver.isSet
                }
            }
            let tally = await load.run(stage)
            isOver.set()
            let waits = await watching.value
            try Task.checkCancellation()
            guard !tally.latencies.isEmpty else {
                let codes = tally.refusals.keys.map(\.rawValue).sorted().joined(separator: ", ")
                throw Problem(.storeUnavailable, "no push was accepted (\(codes.isEmpty ? "no answer" : codes))")
            }
            let use = BenchUse(before, await meter.reading(), waits, mutations: tally.mutations)
            stages.append(BenchReport.Stage(stage, tally, use))
        }
        return stages
    }
}

/// A flag that tasks share.
private final class BenchFlag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .relaxed) }

    /// Sets the flag, and returns whether it was set before.
    @discardableResult
    func set() -> Bool { value.exchange(true, ordering: .relaxed) }
}

/// A line on standard error that is replaced as the work proceeds.
final class BenchProgress: Sendable {
    private let isShown: Bool
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let due: Throttle
    private let hasLine = Atomic(false)

    /// - Parameter isShown: whether progress is reported at all.
    init(isShown: Bool) {
        self.isShown = isShown
        due = Throttle(isTerminal ? .milliseconds(200) : .seconds(5))
    }

    func show(_ text: String) {
        guard isShown, due.isDue() else { return }
        guard isTerminal else { return Terminal.printError(text) }
        hasLine.store(true, ordering: .relaxed)
        Terminal.draw("\r\u{1b}[K" + text)
    }

    /// Removes the line, so that other text can be printed in its place.
    func clear() {
        if hasLine.exchange(false, ordering: .relaxed) { Terminal.draw("\r\u{1b}[K") }
    }
}
