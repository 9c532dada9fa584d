import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncModel

struct SourcesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sources",
        abstract: "Receive external edits by webhook, by polling an API, or from a database.",
        discussion: """
            EXAMPLES
              sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm crm.json
              sluice sources test 0192f0c1-2345-7abc-8def-0123456789ab crm message.json
              sluice sources list 0192f0c1-2345-7abc-8def-0123456789ab
              sluice sources run 0192f0c1-2345-7abc-8def-0123456789ab crm --from-beginning
              sluice sources remove 0192f0c1-2345-7abc-8def-0123456789ab crm

            A source receives an organization's external edits without a separate program
            between its API and the gateway. docs/ingest.md describes the settings of each
            kind.

            The commands change the database of SLUICE_DATABASE_URL. Gateways apply a change
            within 5 seconds.
            """,
        subcommands: [
            ListSourcesCommand.self, ShowSourceCommand.self, PutSourceCommand.self, TestSourceCommand.self,
            RunSourceCommand.self, RemoveSourceCommand.self,
        ]
    )
}

/// A source of an organization, by its name.
struct SourceArguments: ParsableArguments {
    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var organization: UUID

    @Argument(help: "The source's name: [a-z][a-z0-9_-]{0,63}.")
    var name: String

    var key: SourceKey { SourceKey(organization: organization, name: name) }

    func validate() throws {
        guard IngestSource.isValid(name) else { throw ValidationError("The name must match [a-z][a-z0-9_-]{0,63}.") }
    }

    var unknown: CommandFailure { .notFound("organization \(organization.lowercased) has no source '\(name)'") }

    /// More than settings or a message can be.
    private static let maximumBytes = 4_194_304

    /// Returns the content of a file, or of standard input for `-`.
    static func bytes(of file: String) throws -> [UInt8] {
        do {
            let handle = file == "-" ? FileHandle.standardInput : try FileHandle(forReadingFrom: URL(filePath: file))
            let data = try handle.read(upToCount: maximumBytes + 1) ?? Data()
            guard data.count <= maximumBytes else {
                throw Terminal.failure("\(file) has more than \(maximumBytes) bytes")
            }
            return Array(data)
        } catch let error as CocoaError {
            throw Terminal.failure("\(file) cannot be read: \(error.localizedDescription)")
        }
    }
}

extension SourceRow {
    /// A line of the list.
    var line: String {
        let success = lastSuccessAt.map { "last success \($0.rfc3339)" } ?? "no success yet"
        let failure = failingSince.map { "  failing since \($0.rfc3339): \(lastError ?? "")" } ?? ""
        return "\(name)  \(kind.rawValue)  \(activity.rawValue)  \(success)\(failure)"
    }

    /// A complete description as text.
    var userMessage: String {
        var lines = [line, "settings: \(String(decoding: settings, as: UTF8.self))"]
        if let state { lines.append("progress: \(String(decoding: state, as: UTF8.self))") }
        if let lastEventAt { lines.append("last event: \(lastEventAt.rfc3339)") }
        if let nextRunAt { lines.append("next run: \(nextRunAt.rfc3339)") }
        if failureCount > 0 { lines.append("failures since the last success: \(failureCount)") }
        if let previousSecretUntil { lines.append("the previous secret is valid until \(previousSecretUntil.rfc3339)") }
        return lines.joined(separator: "\n")
    }
}
