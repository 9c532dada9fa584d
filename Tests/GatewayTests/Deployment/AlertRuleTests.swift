import Foundation
import GatewaySupport
import JSONText
import TestSupport
import Testing

@Suite(.enabled(if: Promtool.path != nil, "promtool is not installed (scripts/bootstrap --tests)"))
struct AlertRuleTests {
    private func promtool(_ arguments: String) async throws -> (status: Int32, output: String) {
        let program = try Program(shell: "cd '\(Repository.path("docker/prometheus"))' && promtool \(arguments)")
        let status = try await program.end()
        return (status, program.output + program.complaint)
    }

    @Test(arguments: ["check config prometheus.yml", "check rules alerts.yml", "test rules alerts_test.yml"])
    func `promtool accepts the configuration, rules and tests`(command: String) async throws {
        let (status, output) = try await promtool(command)
        #expect(status == 0, "\(output)")
    }

    @Test func `each alert is tested and has its section in the runbook`() throws {
        let rules = try Repository.text("docker/prometheus/alerts.yml")
        let tests = try Repository.text("docker/prometheus/alerts_test.yml")
        let runbook = try Repository.text("docs/runbook.md")
        let alerts = rules.matches(of: #/- alert: (\w+)/#).map { String($0.1) }
        #expect(alerts.count > 10 && Set(alerts).count == alerts.count)
        for alert in alerts {
            let place = #"runbook_url: "{{ $externalLabels.runbook }}#\#(alert.lowercased())""#
            #expect(rules.contains(place + "\n"), "\(alert)")
            #expect(runbook.contains("\n### \(alert)\n"), "\(alert)")
            let fires = tests.contains(#"- labels: ALERTS{alertname="\#(alert)", alertstate="firing""#)
            #expect(fires, "\(alert) fires in no test")
        }
        let sections = runbook.matches(of: #/\n### (Sluice\w+)\n/#).map { String($0.1) }
        #expect(Set(sections) == Set(alerts))
        for member in ["    severity: ", "    summary: ", "    description: "] {
            #expect(rules.components(separatedBy: member).count == alerts.count + 1, "\(member)")
        }
    }

    /// Notifications have a working link. The label from which the link is built is removed before they are sent.
    @Test func `a single setting defines the address of the runbook`() throws {
        let configuration = try Repository.text("docker/prometheus/prometheus.yml")
        #expect(configuration.contains(#/external_labels:\n +runbook: \w+:\/\/\S+\/runbook\.md\n/#))
        #expect(configuration.contains("- action: labeldrop\n      regex: runbook\n"))
        #expect(configuration.contains(#"targets: ["alertmanager:9093"]"#))
    }

    @Test(.enabled(if: TestServer.program("amtool") != nil, "amtool is not installed"))
    func `amtool accepts the Alertmanager configuration`() async throws {
        let file = Repository.path("docker/alertmanager/alertmanager.yml")
        let check = try Program(shell: "amtool check-config '\(file)'")
        #expect(try await check.end(within: .seconds(60)) == 0, "\(check.output)\(check.complaint)")
    }

    /// Wraps the expressions in rules, because promtool reads only rule files.
    @Test func `the dashboard's expressions are valid`() async throws {
        let text = try Repository.text("docker/grafana/dashboards/sluice.json")
        let dashboard = try JSONTree(parsing: Array(text.utf8)).root
        var panels = 0
        var rules = "groups:\n  - name: dashboard\n    rules:\n"
        for panel in try #require(dashboard["panels"]?.elements) {
            for target in panel["targets"]?.elements.map(Array.init) ?? [] {
                let expression = try #require(target["expr"]?.string)
                    .replacingOccurrences(of: "$__rate_interval", with: "1m")
                    .replacingOccurrences(of: "$instance", with: ".*")
                rules += "      - record: panel:\(panels)\n        expr: |-\n          \(expression)\n"
                panels += 1
            }
            if panel["type"]?.string != "row" {
                #expect(panel["title"]?.string?.isEmpty == false)
                #expect(panel["datasource"]?["uid"]?.string == "${datasource}")
            }
        }
        #expect(panels > 40)
        let names = dashboard["templating"]?["list"]?.elements.map { $0.compactMap { $0["name"]?.string } }
        #expect(names == ["datasource", "instance"])
        let folder = try TemporaryFolder()
        try rules.write(toFile: folder.path + "/rules.yml", atomically: false, encoding: .utf8)
        let (status, output) = try await promtool("check rules '\(folder.path)/rules.yml'")
        #expect(status == 0, "\(output)")
    }
}
