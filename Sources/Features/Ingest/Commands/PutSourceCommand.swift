import ArgumentParser
import CommandSupport
import JSONText
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore

struct PutSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Create a source, or replace its settings.",
        discussion: """
            EXAMPLES
              sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm crm.json
              sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm - <<'END'
              {"kind": "webhook", "settings": {"mapping": {"rules": [
                {"entity_type": "contact", "operation": "upsert", "id": "/data/id",
                 "version": "/data/revision", "document": "/data"}]}}}
              END

            The file contains the body of PUT /admin/organizations/{id}/sources/{name}: kind,
            settings, secret, status. If a new webhook source has no secret, one is generated
            and shown once. An existing source keeps its secret.
            """
    )

    @OptionGroup var source: SourceArguments

    @Argument(help: "JSON file, or - for standard input.", completion: .file())
    var file: String

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let body = try SourceArguments.bytes(of: file)
        let key = source.key
        typealias Put = (written: (row: SourceRow, isNew: Bool), usual: String?)
        let (written, usual) = try await options.withStore(
            CommandAct("putSource", of: key.organization, ["name": key.name]),
            orElse: .noOrganization(key.organization)
        ) { store, settings throws(Problem) -> Put? in
            let update = try SourceUpdate(body: body)
            try update.check(settings.webhookAddresses)
            let usual = update.settings.kind == .webhook && update.secret == nil ? WebhookSecret().text : nil
            guard let written = try await store.sourceAdministration.put(key, update, usual: usual) else { return nil }
            return (written: written, usual: usual)
        }
        let secret = written.isNew ? usual : nil
        let userMessage = "\(key.name) is \(written.isNew ? "created" : "changed"): \(written.row.line)"
        options.output(userMessage + (secret.map { "\nsecret: \($0)" } ?? "")) { writer in
            written.row.writeMembers(to: &writer)
            writer.member("secret", secret)
        }
    }
}
