import NIOHTTP1
import TestSupport
import Testing

@Suite struct MetricsPageTests {
    /// Of the real program, whose wiring decides which metrics there are.
    @Test func everyMetricOfARunningGatewayIsDescribed() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).status == 200)
        let page = try await send(.GET, gateway.operations + "/metrics").text
        #expect(page.contains("\nsluice_commit_group_pushes_count"))
        #expect(!page.contains("Not described"))
        if Promtool.path != nil { #expect(try await Promtool.remarks(on: Array(page.utf8)) == "") }
    }
}
