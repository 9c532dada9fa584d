import ArgumentParser
import CommandSupport
import StandardWebhooks

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Receive webhooks during development; create their signing key.",
        discussion: """
            EXAMPLES
              sluice webhooks listen --secret whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
              sluice webhooks create-key > /etc/sluice/webhook-key

            Configure webhooks with /admin/organizations/{id}/webhooks.
            """,
        subcommands: [ListenCommand.self, CreateWebhookKeyCommand.self]
    )
}

struct CreateWebhookKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create-key",
        abstract: "Print a new key for SLUICE_WEBHOOK_SIGNING_KEY.",
        discussion: """
            EXAMPLES
              sluice webhooks create-key > /etc/sluice/webhook-key
              SLUICE_WEBHOOK_SIGNING_KEY_FILE=/etc/sluice/webhook-key sluice serve

            With this key, webhooks have a v1a signature (Ed25519) in addition to the v1
            signature. The key for receivers, whpk_…, is printed to standard error. It is also
            the public_key of GET /admin/organizations/{id}/webhooks.
            """
    )

    func run() async throws {
        let key = WebhookSigningKey()
        Terminal.output(key.text)
        Terminal.printError("the public key is \(key.publicKey.text)")
    }
}
