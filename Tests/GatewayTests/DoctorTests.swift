import Foundation
import JSONText
import TestSupport
import Testing

/// `sluice doctor`: what it finds, what it advises, and how it ends.
@Suite(.timeLimit(.minutes(1))) struct DoctorTests {
    /// A finding of `doctor --json`.
    private struct Check {
        let status: String?
        let finding: String
        let advice: String?
    }

    private static func examine(
        _ settings: [String: String]
    ) async throws -> (result: Program.Result, isOK: Bool?, checks: [String: Check]) {
        let result = try await Program.run(["doctor", "--json"], environment: settings)
        let root = try JSONTree(parsing: Array(result.output.utf8)).root
        var checks: [String: Check] = [:]
        for check in root["checks"]?.elements.map(Array.init) ?? [] {
            checks[check["subject"]?.string ?? "-"] = Check(
                status: check["status"]?.string,
                finding: check["finding"]?.string ?? "-",
                advice: check["advice"]?.string
            )
        }
        return (result, root["ok"]?.bool, checks)
    }

    private static func settings(_ database: TestDatabase) throws -> [String: String] {
        GatewayProcess.environment(
            database: database.uri,
            ports: (try GatewayProcess.freePort(), try GatewayProcess.freePort())
        )
    }

    @Test func aSetUpThatWorksIsFoundHealthy() async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let settings = try Self.settings(database)
        let (result, isOK, checks) = try await Self.examine(settings)
        #expect(result.status == 0)
        #expect(result.complaint == "")
        #expect(isOK == true)
        for subject in [
            "configuration", "keys", "operator token", "database", "encoding", "durability", "connections", "clock",
            "schema", "listener \(settings["SLUICE_PUBLIC_ADDRESS"] ?? "")",
            "listener \(settings["SLUICE_OPERATIONS_ADDRESS"] ?? "")",
        ] {
            #expect(checks[subject]?.status == "ok", "\(subject): \(checks[subject]?.finding ?? "not looked at")")
            #expect(checks[subject]?.advice == nil)
        }
        let text = try await Program.run(["doctor"], environment: settings)
        #expect(text.status == 0)
        #expect(text.output.contains("ok       schema: up to date\n"))
        #expect(text.output.split(separator: "\n").count == checks.count + checks.values.count { $0.advice != nil })
        await cluster.close()
    }

    @Test func aDatabaseThatIsAwayIsToldFromOneThatIsNotMigrated() async throws {
        let database = try await TestDatabase.make()
        let unmigrated = try await Self.examine(try Self.settings(database))
        #expect(unmigrated.result.status == 1)
        #expect(unmigrated.isOK == false)
        #expect(unmigrated.checks["database"]?.status == "ok")
        #expect(unmigrated.checks["schema"]?.status == "failed")
        #expect(unmigrated.checks["schema"]?.finding == "lacks 0001_base, 0002_upstream, 0003_delivery, 0007_sealing")
        #expect(unmigrated.checks["schema"]?.advice == "Run: sluice migrate")

        var settings = try Self.settings(database)
        settings["SLUICE_DATABASE_URL"] = "postgresql://somebody:hushhush@/sluice?host=/nowhere"
        let away = try await Self.examine(settings)
        #expect(away.result.status == 1)
        #expect(away.isOK == false)
        #expect(away.checks["database"]?.status == "failed")
        #expect(away.checks["database"]?.finding.hasPrefix("cannot be reached: ") == true)
        #expect(away.checks["database"]?.advice?.contains("SLUICE_DATABASE_URL") == true)
        #expect(away.checks["schema"] == nil, "there is nothing to look at")
        #expect(away.checks["keys"]?.status == "ok", "the rest is looked at all the same")
        #expect(!away.result.output.contains("hushhush"))
    }

    @Test func aDatabaseThatCanLosePushesIsNotHealthy() async throws {
        // it is the tests' own, which does not flush
        let database = try await LiveGateway.migratedDatabase(on: try await TestCluster.dedicated())
        let (result, _, checks) = try await Self.examine(try Self.settings(database))
        #expect(result.status == 1)
        #expect(checks["fsync"]?.status == "failed")
        #expect(checks["fsync"]?.advice?.contains("fsync = on") == true)
        #expect(checks["full_page_writes"]?.status == "warning")
    }

    @Test func settingsThatCanNotWorkAreEachNamed() async throws {
        let (result, isOK, checks) = try await Self.examine([
            "SLUICE_MAX_MUTATIONS": "many", "SLUICE_LOG_LEVEL": "loud",
        ])
        #expect(result.status == 1)
        #expect(isOK == false)
        #expect(checks.keys.sorted() == ["configuration"])
        #expect(result.output.contains("SLUICE_MAX_MUTATIONS is \\\"many\\\", but must be a whole number"))
        #expect(result.output.contains("SLUICE_LOG_LEVEL is \\\"loud\\\", but must be one of "))
    }

    @Test func whatDeservesALookIsAWarning() async throws {
        let database = try await LiveGateway.migratedDatabase()
        var settings = try Self.settings(database)
        let port = try GatewayProcess.freePort()
        let occupant = try Listening(on: port)
        settings["SLUICE_PUBLIC_ADDRESS"] = "127.0.0.1:\(port)"
        settings["SLUICE_OPERATIONS_ADDRESS"] = "192.0.2.1:8081"
        settings["SLUICE_JWT_SECRET"] = nil
        settings["SLUICE_MAX_MUTATION"] = "3"
        let (result, _, checks) = try await Self.examine(settings)
        #expect(result.status == 1)
        #expect(checks["listener 127.0.0.1:\(port)"]?.status == "warning")
        #expect(checks["listener 127.0.0.1:\(port)"]?.finding == "in use")
        #expect(checks["listener 192.0.2.1:8081"]?.status == "failed")
        #expect(checks["keys"]?.status == "failed")
        #expect(checks["keys"]?.finding.contains("SLUICE_JWT_SECRET") == true)
        #expect(result.output.contains("is SLUICE_MAX_MUTATIONS meant?"))
        withExtendedLifetime(occupant) {}
    }
}
