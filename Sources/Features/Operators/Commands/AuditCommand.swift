import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "List the actions of operators and their reasons, newest first.",
        usage: "sluice audit [<options>]",
        discussion: """
            EXAMPLES
              sluice audit
              sluice audit --organization 0192f0c1-2345-7abc-8def-0123456789ab --limit 20
              sluice audit --actor anna --since 2026-11-20T00:00:00Z
              sluice audit --action deleteOrganization --json

            Prints one line per action: the time, the operator, the action, whose data it concerned, the outcome and \
            the reason; with --json, one JSON object per line. If the outcome is missing, the action was started, but \
            its end was not recorded: it may have succeeded. SLUICE_RETENTION_AUDIT_DAYS limits how long actions are \
            kept.

            ACTIONS
              An action has the name of the API's operation (`operationId` in GET /openapi.json of the public \
            listener, which needs no token), regardless of whether /admin, the console or a command performed it. \
            `sluice migrate`, `sluice doctor` and commands that only list or show are not recorded. These actions are \
            no operations of the API:

              lookAtPayload         an operator read the payload of a mutation
              importEntities        sluice import
              exportEntities        sluice export
              importRoutes          sluice upstream import
              sealRows              sluice keys seal
              rewrapKeys            sluice keys rewrap
              renewKey              sluice keys renew
              addReader             sluice organizations readers add
              removeReader          sluice organizations readers remove
              evaluateChannels      sluice channels evaluate
              setRightAfterRestore  sluice after-restore
              measureInstallation   sluice bench
            """ + HelpText.exitCodes([:])
    )

    @Option(help: "Only actions on this organization (UUID).", transform: uuidArgument)
    var organization: UUID?

    @Option(
        help: ArgumentHelp(
            "Only actions of this operator. Commands are recorded as cli: and the system's user, such as cli:root.",
            valueName: "name"
        )
    )
    var actor: String?

    @Option(help: ArgumentHelp("Only actions with this name, such as putUpstream.", valueName: "name"))
    var action: String?

    @Option(
        help: ArgumentHelp("Only actions at or after this time (RFC 3339) or date.", valueName: "time"),
        transform: momentArgument
    )
    var since: Timestamp?

    @Option(help: ArgumentHelp("Only actions before this time.", valueName: "time"), transform: momentArgument)
    var until: Timestamp?

    @Option(help: ArgumentHelp("Maximum number of actions, 1 to 100000.", valueName: "number"))
    var limit = 100

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard (1...100_000).contains(limit) else { throw ValidationError("--limit must be from 1 to 100000.") }
    }

    func run() async throws {
        var filter = AuditFilter()
        filter.organization = organization
        filter.actor = actor
        filter.action = action
        filter.since = since
        filter.until = until
        let (wanted, asked) = (limit, filter)
        let count = try await options.withStore { store, _ throws(Problem) -> Int in
            var left = wanted
            var cursor: UUID?
            repeat {
                let page = try await store.audit.page(asked, limit: min(left, 1_000), after: cursor)
                for act in page.acts { options.output(act.json(), line(act)) }
                left -= page.acts.count
                cursor = page.next
            } while left > 0 && cursor != nil
            return wanted - left
        }
        if count == 0, !options.json { Terminal.printError("no matching actions") }
    }

    private func line(_ act: AuditRow) -> String {
        var parts = [act.at.rfc3339, act.actor, act.action]
        if let organization = act.organization { parts.append("of \(organization.lowercased)") }
        if let user = act.user { parts.append("user \(user.text)") }
        if let into = act.into { parts.append("into \(into.text)") }
        if act.target != Array("{}".utf8) { parts.append(String(decoding: act.target, as: UTF8.self)) }
        parts.append("→ " + (act.outcome.map { String(decoding: $0, as: UTF8.self) } ?? "no recorded outcome"))
        if let reason = act.reason { parts.append("because: \(reason)") }
        return TerminalText.of(parts.joined(separator: "  "), upTo: 2_000)
    }
}
