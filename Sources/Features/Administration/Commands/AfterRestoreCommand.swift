import ArgumentParser
import CommandSupport
import JSONText
import SyncModel
import SyncStore

struct AfterRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "after-restore",
        abstract: "Repair a database after restoring a backup, before gateways start.",
        discussion: """
            EXAMPLES
              pg_restore -d sluice sluice.dump && sluice migrate && sluice after-restore
              sluice after-restore --json

            Run it after each restore of the database, before gateways start. It prints what it repaired:

            - Cursors of changes, events and id mappings become invalid, because a cursor issued after the backup may \
            refer to data that the backup does not contain. Requests with an older cursor receive 410, and clients \
            download everything again.
            - Leases are released, so that gateways process each user's queue of mutations (a lane) immediately.
            - Users whose erasure is recorded in the restored database are erased again, by gateways after their \
            start. If users were erased after the backup, restore the records of erasures from a newer dump before \
            (docs/operations.md has the commands), or erase the users again.
            - Sources that follow a database's log are listed. If a replication slot is ahead of the restored \
            position, its source stops. Then import the rows of the source's tables with `sluice import`, and run \
            `sluice sources run … --from-beginning`.

            Run it only once for each restore: every run makes all clients start over.
            """
                + HelpText.exitCodes([
                    0: "The database is repaired.",
                    75: "Gateways are connected, and nothing was changed. Stop them, then run the command again.",
                ])
    )

    @Flag(help: "Run even if sessions with the application name sluice are connected. None may be a gateway's.")
    var force = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let isForced = force
        let result = try await options.run(
            CommandAct("setRightAfterRestore"),
            orElse: .notFound("there is nothing to repair"),
            result: { if case .others = $0 { .failed(.overloaded) } else { .whole } }
        ) { administration throws(Problem) -> Result? in
            let others = isForced ? 0 : try await Self.longLivedSessions(administration)
            if others > 0 { return .others(others) }
            let report = try await administration.setRightAfterRestore()
            var notes: [RestoreNote] = []
            for feature in InstalledFeatures.list {
                if let note = try await feature.restored(administration) { notes.append(note) }
            }
            return .done(report, notes)
        }
        switch result {
        case .others(let count):
            throw Terminal.failure(
                "gateways are connected to the database (\(count) connections); stop them; use --force only if none of "
                    + "the connections is a gateway's",
                Terminal.tryAgain
            )
        case .done(let report, let notes):
            options.output(Self.summary(of: report, notes)) {
                $0.member("feeds", report.feeds)
                $0.member("lanes", report.lanes)
                $0.member("erasures", report.erasures)
                $0.member("had_retention", report.hadRetention)
                for note in notes { $0.member(note.name, raw: note.json) }
            }
        }
    }

    private static func summary(of report: RestoreReport, _ notes: [RestoreNote]) -> String {
        var lines = [
            "\(report.feeds) organizations: older cursors now receive 410",
            "\(report.lanes) leases of lanes released",
        ]
        if report.erasures > 0 { lines.append("\(report.erasures) erased users: gateways will erase them again") }
        if report.hadRetention { lines.append("retention lease released") }
        return (lines + notes.flatMap(\.lines)).joined(separator: "\n")
    }

    private enum Result: Sendable {
        case others(Int)
        case done(RestoreReport, [RestoreNote])
    }

    /// Returns the number of gateways' sessions that remain after two seconds.
    ///
    /// The method waits because the server takes a moment to end a session, such as an earlier session of this command.
    private static func longLivedSessions(_ administration: Administration) async throws(Problem) -> Int {
        for _ in 1...20 {
            if try await administration.otherSessions() == 0 { return 0 }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return try await administration.otherSessions()
    }
}
