import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import StandardWebhooks
import UnixSignals

/// Receives webhooks on a port of this machine, and shows them.
struct ListenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen",
        abstract: "Show webhooks in a terminal, and verify their signatures.",
        usage: "sluice webhooks listen [--port <number>] [--secret <whsec_…>] [--key <whpk_…>] [<options>]",
        discussion: """
            EXAMPLES
              sluice webhooks listen
              sluice webhooks listen --port 9000 --secret whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
              sluice webhooks listen --key whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
              sluice webhooks listen --answer 503

            Receives webhooks at http://127.0.0.1:PORT/, with any path. For a gateway on the
            same machine, set SLUICE_WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8.

            Responds with 204 if the signature is valid, or if it is not checked because
            neither --secret nor --key is given; otherwise with 400. Press Ctrl-C to stop.
            Exits with 0, or with 1 if the port cannot be used.
            """
    )

    @Option(help: ArgumentHelp("Port on 127.0.0.1, 0 to 65535; 0 selects a free port.", valueName: "number"))
    var port = 8_090

    @Option(
        help: ArgumentHelp(
            "Secret of the webhook. Repeat it for the previous secret. Or set WEBHOOK_SECRET.",
            valueName: "whsec_…"
        )
    )
    var secret: [String] = []

    @Option(help: ArgumentHelp("The gateway's public key, for v1a signatures.", valueName: "whpk_…"))
    var key: [String] = []

    @Option(help: ArgumentHelp("Maximum age of a webhook in seconds.", valueName: "seconds"))
    var tolerance = WebhookVerifier.usualTolerance

    @Option(help: ArgumentHelp("Status of responses to valid webhooks, to test a gateway.", valueName: "status"))
    var answer = 204

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be from 0 to 65535.") }
        guard (0...86_400).contains(tolerance) else { throw ValidationError("--tolerance must be from 0 to 86400.") }
        guard (200...599).contains(answer) else { throw ValidationError("--answer must be from 200 to 599.") }
        // the argument may be a secret with a mistake in it, and is not repeated
        guard givenSecrets.allSatisfy({ WebhookSecret($0) != nil }) else {
            throw ValidationError("--secret must be whsec_ and the base64 of 24 to 64 bytes.")
        }
        guard key.allSatisfy({ WebhookPublicKey($0) != nil }) else {
            throw ValidationError("--key must be whpk_ and the base64 of 32 bytes.")
        }
    }

    private var givenSecrets: [String] {
        let variable = ProcessInfo.processInfo.environment["WEBHOOK_SECRET"]
        return secret.isEmpty ? [variable].compactMap { $0 } : secret
    }

    func run() async throws {
        let secrets = givenSecrets.compactMap(WebhookSecret.init)
        let keys = key.compactMap(WebhookPublicKey.init)
        let verifier = WebhookVerifier(secrets: secrets, keys: keys, tolerance: tolerance)
        let inspector = WebhookInspector(verifier: secrets.isEmpty && keys.isEmpty ? nil : verifier, answer: answer) {
            SystemClock.now()
        }
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    try channel.pipeline.syncOperations.addHandler(WebhookConnection(inspector: inspector))
                }
            }
        let channel: any Channel
        do {
            channel = try await bootstrap.bind(host: "127.0.0.1", port: port).get()
        } catch {
            throw Terminal.failure("127.0.0.1:\(port) cannot be used (\(error)); choose another --port, or 0.")
        }
        Terminal.output("Listening at http://127.0.0.1:\(channel.localAddress?.port ?? port)/ until Ctrl-C.")
        if secrets.isEmpty, keys.isEmpty {
            Terminal.output("Signatures are not checked: neither --secret nor --key is given.")
        }
        for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) { break }
        try? await channel.close()
    }
}
