import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import TestSupport
import Testing

/// The metrics of the real program, whose configuration decides which exist.
@Suite(.timeLimit(.minutes(10))) struct MetricsPageTests {
    /// The metrics of a gateway after some use. They are read once, because some metrics appear after fifteen seconds.
    private static let page = Task { try await makePage() }

    /// Pushes, replays, attempts a mutation at an upstream and streams events.
    private static func makePage() async throws -> (text: String, organization: UUID) {
        let database = try await LiveGateway.migratedDatabase()
        let settings = ["SLUICE_METRICS_ORGANIZATIONS": "2"]
        let gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
        let nginx = try await NginxServer.start(configuration: #"location / { return 503; }"#)
        let worker = try await SingleWorker(gateway)
        let draft = worker.draft(1)
        #expect(try await worker.push([draft]).status == 200)
        #expect(try await worker.push([draft]).status == 200)
        let upstream = "\(gateway.operations)/admin/organizations/\(worker.organization.lowercased)/upstream"
        let body = Array(#"{"base_url":"\#(nginx.baseURL)"}"#.utf8)
        let token = GatewayProcess.operatorToken
        #expect(try await send(.PUT, upstream, token: token, body: body).status == 201)
        let events = try await EventListener(gateway.address, token: worker.token)
        let forwarded = worker.draft(2, ["entity_type": #""visit""#, "endpoint": #""/visits""#])
        #expect(try await worker.push([forwarded]).status == 202)
        try await gateway.metric(#"sluice_upstream_attempts_total{outcome="server_error"}"#, reaches: 1)
        // counted once at the start, and every fifteen seconds
        let label = #"{organization="\#(worker.organization.lowercased)"}"#
        try await gateway.metric("sluice_organization_lanes_halted\(label)", reaches: 0)
        let text = try await send(.GET, gateway.operations + "/metrics").text
        events.stop()
        withExtendedLifetime(database) {}
        return (text, worker.organization)
    }

    @Test func `every metric of a gateway in use has a description and is in the documentation`() async throws {
        let (text, organization) = try await Self.page.value
        #expect(!text.contains("Not described"))
        #expect(text.contains("\nsluice_ready 1\n"))
        #expect(text.contains(#"sluice_pushes_total{result="accepted"} 3"#))
        #expect(text.contains(#"sluice_mutations_total{replayed="true",status="succeeded"} 1"#))
        let oldest =
            #"sluice_organization_oldest_pending_mutation_seconds{organization="\#(organization.lowercased)"} "#
        #expect(text.contains(oldest))
        #expect(text.contains("\nsluice_upstream_requests_in_flight "))
        #expect(text.contains(#"sluice_organization_upstream_requests_in_flight{organization="other"} 0"#))
        #expect(text.contains("\nsluice_upstream_batch_parts_failed_total 0\n"))
        if Promtool.path != nil { #expect(try await Promtool.remarks(on: Array(text.utf8)) == "") }
        let shown = MetricTable(page: text).families
        let documented = MetricTable(docs: try Repository.text("docs/metrics.md")).families
        #expect(Set(shown.keys).subtracting(documented.keys) == [], "not in docs/metrics.md")
        #expect(
            Set(documented.keys).subtracting(shown.keys).subtracting(Self.madeElsewhere) == [],
            "missing in the metrics"
        )
        for (name, family) in shown { #expect(documented[name] == family, "\(name)") }
        for name in shown.keys {
            #expect(name.hasSuffix("_total") == (shown[name]?.kind == "counter"), "\(name)")
        }
    }

    /// A dashboard or rule with a missing metric shows no data, and the mistake remains undetected.
    @Test func `every metric used by rules and dashboard exists`() async throws {
        let shown = Set(MetricTable(page: try await Self.page.value.text).families.keys).union(Self.madeElsewhere)
        for file in ["docker/prometheus/alerts.yml", "docker/grafana/dashboards/sluice.json"] {
            let used = MetricTable.used(in: try Repository.text(file))
            #expect(used.count > 10)
            #expect(used.subtracting(shown) == [], "\(file)")
        }
    }

    /// Metrics of keys by URL, of a cluster's servers and of exported traces. Only a gateway with such a configuration
    /// has them.
    private static let madeElsewhere: Set = [
        "sluice_traces_exported_total", "sluice_traces_dropped_total", "sluice_traces_export_failures_total",
        "sluice_traces_queued",
        "sluice_jwks_age_seconds", "sluice_jwks_missing", "sluice_jwks_refreshes_total", "sluice_cluster_server_up",
    ]

    @Test func `no metric names an organization without the setting`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).status == 200)
        let text = try await send(.GET, gateway.operations + "/metrics").text
        #expect(!text.contains("organization="))
        #expect(!text.contains(worker.organization.lowercased))
    }

    @Test func `a group takes two round trips, even if a device is new`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        let worker = try await SingleWorker(gateway)
        let (trips, statements) = ("sluice_commit_group_round_trips", "sluice_commit_group_statements")
        #expect(try await worker.push([worker.draft(1)]).status == 200)
        try await gateway.metric("\(trips)_sum", reaches: 2)
        #expect(try await worker.push([worker.draft(2), worker.draft(3)]).status == 200)
        try await gateway.metric("\(trips)_sum", reaches: 4)
        let text = try await send(.GET, gateway.operations + "/metrics").text
        #expect(text.contains("\n\(trips)_count 2\n"))
        #expect(text.contains("\n\(statements)_count 2\n"))
        // each group includes at least begin, lock, write and commit
        let sum = text.split(separator: "\n").first { $0.hasPrefix("\(statements)_sum ") }
        #expect(try #require(sum.flatMap { Int($0.split(separator: " ")[1]) }) >= 8)
        withExtendedLifetime(database) {}
    }

    /// If the database is unavailable, the metrics are still returned and report the outage.
    @Test func `a gateway that is not ready still returns metrics`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        try await database.close()
        try await gateway.metric("sluice_ready", reaches: 0)
    }
}
