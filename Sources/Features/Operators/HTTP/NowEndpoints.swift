import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore
import Telemetry

/// `GET /admin/now` and `GET /admin/events`: the current state, once and as a stream.
struct NowEndpoints: Sendable {
    static let eventType = "text/event-stream"

    let statusService: OperatorStatusService
    let configuration: HTTPConfiguration
    private let overload = Overload(.listeners)

    init(statusService: OperatorStatusService, configuration: HTTPConfiguration) {
        self.statusService = statusService
        self.configuration = configuration
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return Answer(.ok, try await statusService.view(withHistory: true))
    }

    /// Streams until the session ends, or until the time limit of a stream.
    func listen(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        var answer = Answer(.ok)
        answer.contentType = Self.eventType
        answer.headers[.cacheControl] = "no-store"
        // without this header, nginx would hold back events until a buffer is full
        answer.headers[.xAccelBuffering] = "no"
        guard exchange.head.method != .head else {
            answer.stream = { _ in }
            return answer
        }
        guard let (frames, end) = statusService.listen() else { throw overload.problem() }
        let left = exchange.operatorUntil.map { max(0, $0 - configuration.now().seconds) }
        let longest = left.map { min(configuration.maximumStream, .seconds($0)) } ?? configuration.maximumStream
        answer.stream = { [statusService] write in
            async let _ = Self.end(end, after: longest)
            try await write(OperatorFrame.opening)
            if let view = try? await statusService.view(withHistory: false) { try await write(OperatorFrame.now(view)) }
            for await frame in frames { try await write(frame) }
        }
        return answer
    }

    private static func end(_ end: @Sendable () -> Void, after longest: Duration) async {
        // the sleep is cancelled if the stream ends earlier
        try? await Task.sleep(for: longest)
        end()
    }
}

/// The current state of all gateways for operators. Rates, history and circuits are those of this gateway only.
struct NowView: AnswerBody {
    /// The maximum number of circuits that are shown.
    static let maximumCircuits = 100

    let state: NowState
    let gateway: UUID
    let version: String
    let now: Timestamp
    let traffic: TrafficHistory
    let showsHistory: Bool
    let circuits: [CircuitReport]

    var expectedBytes: Int { showsHistory ? 24_576 : 2_304 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("at", now.rfc3339)
        writer.member("gateway_id", gateway)
        writer.member("replicas", state.replicas) { writer, replica in
            writer.object { writer in
                writer.member("gateway_id", replica.id)
                // this gateway has no information about the versions of other gateways
                writer.member("version", replica.id == gateway ? version : nil)
                writer.member("last_seen_at", replica.lastSeenAt.rfc3339)
            }
        }
        writer.member("rates", object: writeRates)
        writer.member("totals", object: writeTotals)
        writer.member("stuck", object: writeStuck)
        writer.member("oldest_waiting", state.oldest.map { WaitingBody(waiting: $0, now: now) })
        writer.member("circuits", circuits.prefix(Self.maximumCircuits))
        writer.member("retention", object: writeRetention)
        if showsHistory { writer.member("history", object: writeHistory) }
    }

    private func writeStuck(to writer: inout JSONWriter) {
        writer.member("failed", state.failed)
        writer.member("conflict", state.conflict)
        writer.member("halted_lanes", state.haltedLanes)
        writer.member("waiting_lanes", state.waitingLanes)
    }

    private func writeRetention(to writer: inout JSONWriter) {
        writer.member("running_since", state.retention.runningSince?.rfc3339)
        writer.member("next_run_at", (state.retention.dueAt ?? now).rfc3339)
        writer.member("last_run_at", state.retention.finishedAt?.rfc3339)
        writer.member("last_run", raw: state.retention.lastReport)
    }

    private func writeRates(to writer: inout JSONWriter) {
        let rates = traffic.rates
        writer.member("scope", "gateway" as StaticString)
        writer.member("pushes_per_second", tenths: rates.pushes)
        writer.member("accepted_per_second", tenths: rates.accepted)
        writer.member("applied_per_second", tenths: rates.applied)
        writer.member("failed_per_second", tenths: rates.failed)
    }

    private func writeTotals(to writer: inout JSONWriter) {
        writer.member("scope", "gateway" as StaticString)
        writer.member("since", (traffic.day.since ?? now).rfc3339)
        for (name, series) in [("hour", traffic.hour), ("day", traffic.day)] as [(StaticString, TrafficSeries)] {
            let amounts = series.amounts
            writer.member(
                name,
                object: { writer in
                    writer.member("pushes", Int64(amounts.pushes))
                    writer.member("accepted", Int64(amounts.accepted))
                    writer.member("applied", Int64(amounts.applied))
                    writer.member("failed", Int64(amounts.failed))
                }
            )
        }
    }

    private func writeHistory(to writer: inout JSONWriter) {
        writer.member("scope", "gateway" as StaticString)
        write(traffic.hour, to: &writer)
        writer.member("day", object: { write(traffic.day, to: &$0) })
    }

    /// Writes a series. The series of the last day omits the age of the oldest waiting mutation, because the points of
    /// that series are too far apart.
    private func write(_ traffic: TrafficSeries, to writer: inout JSONWriter) {
        let points = traffic.points
        writer.member("step_seconds", traffic.step)
        writer.member("from", traffic.beginning?.rfc3339)
        writer.member(
            "series",
            object: { writer in
                writer.member("pushes", points) { $0.tenths($1.rates.pushes) }
                writer.member("accepted", points) { $0.tenths($1.rates.accepted) }
                writer.member("applied", points) { $0.tenths($1.rates.applied) }
                writer.member("failed", points) { $0.tenths($1.rates.failed) }
                guard traffic.step == self.traffic.hour.step else { return }
                writer.member("oldest_waiting_seconds", points) { writer, point in
                    if let seconds = point.oldestWaitingSeconds { writer.tenths(seconds) } else { writer.null() }
                }
            }
        )
    }
}

private struct WaitingBody: AnswerBody {
    let waiting: NowState.Waiting
    let now: Timestamp

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("accepted_at", waiting.acceptedAt.rfc3339)
        writer.member("age_seconds", tenths: Double(now.microseconds - waiting.acceptedAt.microseconds) / 1_000_000)
        writer.member("organization_id", waiting.organization)
        writer.member("user_id", waiting.user)
        writer.member("mutation_id", waiting.mutation)
    }
}

extension JSONWriter {
    /// Writes a number of at least 0, rounded to tenths.
    mutating func tenths(_ number: Double) {
        let tenths = Int64((max(0, min(number, 1e15)) * 10).rounded())
        raw(tenths % 10 == 0 ? Array("\(tenths / 10)".utf8) : Array("\(tenths / 10).\(tenths % 10)".utf8))
    }

    mutating func member(_ name: StaticString, tenths number: Double) {
        self.name(name)
        tenths(number)
    }
}

extension TrafficTotals {
    /// The counters of this process, as `/metrics` shows them.
    init(_ registry: PrometheusRegistry) {
        self.init()
        func pushed(_ status: MutationStatus) -> Double {
            registry.total(HTTPMetrics.mutations, [("status", status.rawValue), ("replayed", "false")])
        }
        func sent(_ outcome: Outcome.Kind) -> Double {
            registry.total(StoreMetrics.upstreamAttempts, [("outcome", outcome.rawValue)])
        }
        pushes = registry.total(HTTPMetrics.pushes, [("result", "accepted")])
        accepted = MutationStatus.allCases.reduce(0) { $1 == .rejected ? $0 : $0 + pushed($1) }
        applied = pushed(.succeeded) + sent(.succeeded)
        failed = pushed(.failed) + pushed(.conflict) + sent(.rejected) + sent(.conflict)
    }
}

extension CircuitReport: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("organization_id", organization)
        writer.member("state", (isHalfOpen ? "half_open" : "open") as StaticString)
        writer.member("since", since.rfc3339)
        writer.member("failures", failures)
        writer.member("last_error", lastError)
        writer.member("next_probe_at", nextProbeAt.rfc3339)
    }
}
