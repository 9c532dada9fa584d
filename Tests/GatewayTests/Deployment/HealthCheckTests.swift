import Foundation
import GatewaySupport
import OperatorsFeature
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct HealthCheckTests {
    @Test func `the health check reports a gateway as alive and ready`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: ["SLUICE_STATEMENT_SECONDS": "5"]
        )
        // a container listens on all addresses
        let port = gateway.operations.split(separator: ":").last ?? ""
        let everywhere = ["SLUICE_OPERATIONS_ADDRESS": "0.0.0.0:\(port)"]
        for settings in [gateway.environment, gateway.environment.merging(everywhere) { $1 }] {
            let alive = try await Program.run(["healthcheck"], environment: settings)
            #expect((alive.status, alive.output, alive.complaint) == (0, "alive\n", ""))
            let ready = try await Program.run(["healthcheck", "--ready"], environment: settings)
            #expect((ready.status, ready.output, ready.complaint) == (0, "ready\n", ""))
        }
        // without its database, the gateway is alive and needs no restart
        try await database.close()
        // the gateway reports this when its database time-outs are over
        let ready = ["healthcheck", "--ready", "--timeout", "60"]
        let away = try await Program.run(ready, environment: gateway.environment)
        #expect(away.status == 1)
        #expect(away.complaint.contains("the database cannot be reached"), "\(away.complaint)")
        #expect(try await Program.run(["healthcheck"], environment: gateway.environment).status == 0)
        #expect(try await gateway.terminate() == 0)
        let gone = try await Program.run(["healthcheck"], environment: gateway.environment)
        #expect(gone.status == 1)
        #expect(gone.complaint.contains("cannot be reached"), "\(gone.complaint)")
    }

    /// A program that accepts connections without answering must not block the check.
    @Test func `the health check fails if the gateway does not answer in time`() async throws {
        let silent = try Listening()
        let port = silent.port
        let environment = ["SLUICE_OPERATIONS_ADDRESS": "127.0.0.1:\(port)"]
        let result = try await Program.run(["healthcheck", "--timeout", "1"], environment: environment)
        #expect(result.status == 1)
        #expect(result.complaint.contains("does not respond"), "\(result.complaint)")
        withExtendedLifetime(silent) {}
    }

    @Test func `wrong usage and wrong settings have different exit codes from an unhealthy gateway`() async throws {
        #expect(try await Program.run(["healthcheck", "--timeout", "0"]).status == 64)
        let wrong = try await Program.run(["healthcheck"], environment: ["SLUICE_OPERATIONS_ADDRESS": "nowhere"])
        #expect(wrong.status == 78)
    }
}
