import Foundation
import GatewaySupport
import JSONText
import Postgres
import TestSupport
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

/// Crashes between an upstream's answer and the commit of the outcome, when the database has only the request.
///
/// A trigger stops each transaction that writes an outcome until the gateway has been killed.
@Suite(.timeLimit(.minutes(10)), .enabled(if: python != nil, "python3 is not installed"))
struct LostOutcomeTests {
    enum Manner: String, CaseIterable {
        case lane, dependencies, batch

        /// The number of mutations in flight at the time of the crash, of six.
        var inFlight: Int { self == .lane ? 1 : 6 }
        var settings: String { #"{"settings":{"order":"\#(self == .lane ? "lane" : "dependencies")"}}"# }
        var batch: String { self == .batch ? #"{"path":"/$batch","max_requests":20}"# : "null" }
    }

    /// The upstream of `scripts/chaos` without its faults, which repeats its answer to a known key.
    private final class Upstream: Sendable {
        let port: Int
        private let program: Program
        private let log: String

        init() async throws {
            let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Chaos")
                .standardized
            let log = FileManager.default.temporaryDirectory.appending(path: "upstream-\(UUID().uuidString)").path
            let program = try Program(
                shell: "exec '\(python ?? "python3")' -m chaos.upstream --log '\(log)' --seed 1 --timeout 20",
                environment: ["PYTHONPATH": folder.path, "PYTHONDONTWRITEBYTECODE": "1"]
            )
            try await waitUntil("the upstream listens: \(program.complaint)") { program.output.hasSuffix("\n") }
            program.send(SIGUSR1)
            port = try #require(Int(program.output.dropLast()), "\(program.output)")
            (self.program, self.log) = (program, log)
        }

        deinit { try? FileManager.default.removeItem(atPath: log) }

        /// The idempotency keys of requests (`request`) or of their effects (`effect`), in order.
        func keys(of kind: String) -> [String] {
            let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            return text.split(separator: "\n").compactMap { try? JSONTree(parsing: Array($0.utf8)).root }
                .filter { $0["is"]?.string == kind }.compactMap { $0["key"]?.string }
        }
    }

    private static let hold = """
        CREATE FUNCTION hold_outcome() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_advisory_xact_lock(41); RETURN NEW; END';
        CREATE TRIGGER hold_outcome BEFORE UPDATE ON mutations FOR EACH ROW
            WHEN (OLD.status = 'in_flight' AND NEW.status = 'succeeded') EXECUTE FUNCTION hold_outcome();
        SELECT pg_advisory_lock(41);
        """
    private static let release = """
        DROP TRIGGER hold_outcome ON mutations;
        SELECT pg_advisory_unlock(41);
        """

    @Test(arguments: Manner.allCases)
    func `a mutation is settled once if the gateway is killed before the commit of its outcome`(
        _ manner: Manner
    ) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let upstream = try await Upstream()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: ["SLUICE_LEASE_SECONDS": "5", "SLUICE_RETRY_BASE_SECONDS": "0.05"]
        )
        let worker = try await SingleWorker(gateway)
        try await gateway.operate("", of: worker.organization, manner.settings)
        let settings = """
            {"base_url":"http://127.0.0.1:\(upstream.port)","timeout_seconds":1,"batch":\(manner.batch)}
            """
        try await gateway.operate("/upstream", of: worker.organization, settings)
        let sessions = try await DatabaseSessions(database)
        try await sessions.connection.execute(script: Self.hold)

        let contact = ["entity_type": #""contact""#, "endpoint": #""/contacts""#]
        let drafts = (1...6).map { worker.draft($0, contact) }
        let accepted = try await worker.push(drafts)
        #expect(accepted.status == 202, "\(accepted.text)")
        try await waitUntil("the requests have taken effect") {
            upstream.keys(of: "effect").count == manner.inFlight
        }
        try await sessions.await(1, waitingFor: "advisory")
        try await gateway.crash()
        // otherwise the transactions of the killed gateway would commit
        try await sessions.terminateOthers()
        try await sessions.connection.execute(script: Self.release)
        let sent = upstream.keys(of: "request")
        #expect(sent.count == manner.inFlight && Set(sent).count == manner.inFlight)
        let inFlight = Statement("lost_in_flight", "SELECT count(*) FROM mutations WHERE status = 'in_flight'")
        #expect(try await sessions.connection.run(Query(inFlight)).read(0, 0, as: Int64.self) == manner.inFlight)

        try gateway.restart()
        try await gateway.waitUntilReady()
        var attempts: [Int64?] = []
        var ids: Set<String> = []
        for draft in drafts {
            let done = try await worker.get("/v1/mutations/\(draft.id)?wait=60")
            #expect(done.json?["status"]?.string == "succeeded", "\(done.text)")
            attempts.append(done.json?["attempt_count"]?.int64)
            ids.insert(done.json?["server_id"]?.text ?? "")
        }
        #expect(attempts == (0..<6).map { $0 < manner.inFlight ? 2 : 1 })
        // the upstream gets each lost request again under its key, and each has one effect
        let all = upstream.keys(of: "request")
        let again = all.dropFirst(manner.inFlight).prefix(manner.inFlight)
        #expect(Set(again) == Set(sent) && all.count == 6 + manner.inFlight)
        #expect(upstream.keys(of: "effect").count == 6 && Set(all).count == 6 && ids.count == 6)
        let changes = try await worker.get("/v1/changes").changes
        #expect(Set(changes.map { $0["id"]?.text ?? "" }) == ids && changes.count == 6)
        if manner == .batch {
            let metrics = try await GatewayProcess.get(gateway.operations + "/metrics", token: "").text
            #expect(metrics.contains(#"sluice_upstream_batches_total{result="succeeded"} 1"#), "\(metrics)")
        }
        #expect(try await gateway.terminate() == 0)
        await sessions.close()
    }
}
