package import ArgumentParser
package import SyncHTTP
package import SyncModel
package import SyncStore

/// A feature as part of this program: its additions to the gateway, and to the command line.
package protocol GatewayFeature: Feature {
    /// Subcommands of `sluice`.
    static var commands: [any ParsableCommand.Type] { get }

    /// The checks of `sluice doctor` on a database whose schema is up to date.
    static func diagnoses(_ settings: Settings) async -> [Diagnosis]

    /// Runs the feature's part of `sluice after-restore`, and returns its part of the report. Returns nil if the
    /// feature has no part in the command.
    static func restored(_ administration: Administration) async throws(Problem) -> RestoreNote?

    /// Deletes the feature's part of an organization of `sluice dev`, before the organization is created again.
    static func removeDemo(_ tenant: DemoTenant, from administration: Administration) async throws(Problem)

    /// Adds the feature's part to an organization of `sluice dev`. Called at each start.
    static func completeDemo(_ tenant: inout DemoTenant, in administration: Administration) async throws(Problem)
}

extension GatewayFeature {
    package static var commands: [any ParsableCommand.Type] { [] }
    package static func diagnoses(_ settings: Settings) async -> [Diagnosis] { [] }
    package static func restored(_ administration: Administration) async throws(Problem) -> RestoreNote? { nil }
    package static func removeDemo(
        _ tenant: DemoTenant,
        from administration: Administration
    ) async throws(Problem) {}
    package static func completeDemo(
        _ tenant: inout DemoTenant,
        in administration: Administration
    ) async throws(Problem) {}
}

/// The features of this program, for its commands. `Assembly` lists them.
package enum InstalledFeatures {
    /// Bound once, when a command runs.
    @TaskLocal package static var list: [any GatewayFeature.Type] = []
}

extension [any GatewayFeature.Type] {
    /// The tables of the schema: the engine's tables, and the tables of these features.
    package var tables: [StoredTable] { StoredTable.engine + flatMap { $0.tables } }
}

/// A feature's part of the report of `sluice after-restore`.
package struct RestoreNote: Sendable {
    /// The report's lines for people.
    package let lines: [String]
    /// The member of the JSON report.
    package let name: StaticString
    /// The member's value, as JSON.
    package let json: [UInt8]

    package init(lines: [String], name: StaticString, json: [UInt8]) {
        self.lines = lines
        self.name = name
        self.json = json
    }
}
