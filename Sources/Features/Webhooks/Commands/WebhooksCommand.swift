import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import StandardWebhooks
import SyncModel
import UnixSignals

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Show webhooks during development; create the key that signs them.",
        discussion: """
            EXAMPLES
              sluice webhooks listen --secret whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
              sluice webhooks create-key > /etc/sluice/webhook-key

            Sluice sends webhooks to your programs. Configure them with /admin/organizations/{id}/webhooks \
            (docs/webhooks.md has an example).
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

            With this key, webhooks have a v1a signature (Ed25519) in addition to the v1 signature (HMAC with the \
            webhook's secret). The key for receivers, whpk_…, is printed to standard error. It is also the public_key \
            of GET /admin/organizations/{id}/webhooks. The file must contain exactly one key. After you replace it, \
            give the new public key to all receivers.
            """
                + HelpText.exitCodes(
                    [
                        0: "The key is printed.",
                        1: "The output could not be written completely: discard it.",
                    ],
                    usesDatabase: false
                )
    )

    func run() async throws {
        let key = WebhookSigningKey()
        Terminal.output(key.text)
        Terminal.printError("the public key is \(key.publicKey.text)")
    }
}

// MARK: - ListenCommand

/// Receives webhooks on a port of this machine, and shows them.
struct ListenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen",
        abstract: "Show webhooks in a terminal, and verify their signatures.",
        usage: "sluice webhooks listen [--port <number>] [--secret <whsec_…>] [--key <whpk_…>] [<options>]",
        discussion: """
            EXAMPLES
              sluice webhooks listen
              sluice webhooks listen --port 9000 \\
                --secret whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
              sluice webhooks listen --key whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
              sluice webhooks listen --answer 503

            Receives webhooks at http://127.0.0.1:PORT/, with any path, and prints each of them. For a gateway on the \
            same machine, set SLUICE_WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8.

            Responds with the status of --answer if one signature is valid, or if signatures are not checked because \
            --secret, WEBHOOK_SECRET and --key are all missing; otherwise with 400. Press Ctrl-C to stop.
            """
                + HelpText.exitCodes(
                    [
                        0: "Stopped.",
                        1: "The port cannot be used.",
                    ],
                    usesDatabase: false
                )
    )

    @Option(help: ArgumentHelp("Port on 127.0.0.1, 0 to 65535; 0 selects a free port.", valueName: "number"))
    var port = 8_090

    @Option(
        help: ArgumentHelp(
            "Secret of the webhook. Can be repeated, for the new and the previous secret. Default: the variable "
                + "WEBHOOK_SECRET.",
            valueName: "whsec_…"
        )
    )
    var secret: [String] = []

    @Option(help: ArgumentHelp("The gateway's public key, for v1a signatures. Can be repeated.", valueName: "whpk_…"))
    var key: [String] = []

    @Option(help: ArgumentHelp("Maximum age of a webhook, 0 to 86400.", valueName: "seconds"))
    var tolerance = WebhookVerifier.defaultTolerance

    @Option(help: ArgumentHelp("Status of responses to valid webhooks, 200 to 599.", valueName: "status"))
    var answer = 204

    func validate() throws {
        guard (0...65_535).contains(port) else { throw ValidationError("--port must be from 0 to 65535.") }
        guard (0...86_400).contains(tolerance) else { throw ValidationError("--tolerance must be from 0 to 86400.") }
        guard (200...599).contains(answer) else { throw ValidationError("--answer must be from 200 to 599.") }
        // the message does not repeat the argument, because it may be a mistyped secret
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
        // signals are trapped before the address is printed, because a script may send a signal as soon as it reads the
        // address
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        var lines = ["Listening at http://127.0.0.1:\(channel.localAddress?.port ?? port)/ until Ctrl-C."]
        if secrets.isEmpty, keys.isEmpty {
            lines.insert("Signatures are not checked: --secret, WEBHOOK_SECRET and --key are all missing.", at: 0)
        }
        Terminal.output(lines.joined(separator: "\n"))
        for await _ in signals { break }
        try? await channel.close()
    }
}

// MARK: - WebhookInspector

/// Prints the webhooks that `sluice webhooks listen` receives, and responds to them.
struct WebhookInspector: Sendable {
    /// The maximum size of a body, in bytes.
    static let maximumBytes = 1_048_576
    /// The maximum number of characters of a line that are shown.
    static let maximumShown = 4_000

    /// The verifier of signatures; nil if signatures are not checked.
    let verifier: WebhookVerifier?
    /// The status of the response to a valid webhook.
    let answer: Int
    let now: TimeSource

    /// Verifies a request, and returns the response's status and the text to show.
    ///
    /// - Parameter body: nil if the body is too long.
    func take(_ head: HTTPRequestHead, _ body: [UInt8]?) -> (status: Int, text: String) {
        let moment = now()
        var lines = ["\(moment.rfc3339) \(Self.shown(head.method.rawValue)) \(Self.shown(head.uri))"]
        guard head.method == .POST else {
            lines.append("  not a POST request: responded with 405")
            return (405, lines.joined(separator: "\n"))
        }
        guard let body else {
            lines.append("  longer than \(Self.maximumBytes) bytes: responded with 413")
            return (413, lines.joined(separator: "\n"))
        }
        for name in [WebhookHeader.id, WebhookHeader.timestamp] {
            lines.append("  \(name): \(head.headers.first(name: name).map(Self.shown) ?? "missing")")
        }
        let (verdict, holds) = verdict(head.headers, body, moment)
        lines.append("  signature: \(verdict)")
        lines.append("  " + Self.shown(String(decoding: body, as: UTF8.self)))
        if (try? JSONTree(parsing: body)) == nil { lines.append("  the body is not JSON") }
        let status = holds ? answer : 400
        lines.append("  answered \(status)")
        return (status, lines.joined(separator: "\n"))
    }

    private func verdict(_ headers: HTTPHeaders, _ body: [UInt8], _ moment: Timestamp) -> (String, holds: Bool) {
        guard let verifier else { return ("not checked", true) }
        do throws(WebhookVerificationError) {
            try verifier.verify(
                id: headers.first(name: WebhookHeader.id),
                timestamp: headers.first(name: WebhookHeader.timestamp),
                signatures: headers.first(name: WebhookHeader.signature),
                body: body,
                now: moment.seconds
            )
            return ("holds", true)
        } catch {
            return ("INVALID: \(error)", false)
        }
    }

    /// Returns a text without control characters and other characters that change the display of neighboring text.
    static func shown(_ text: String) -> String { TerminalText.of(text, upTo: maximumShown) }
}

/// One connection: collects a request, shows it, and writes the response.
final class WebhookConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let inspector: WebhookInspector
    private var head: HTTPRequestHead?
    private var body: [UInt8]? = []

    init(inspector: WebhookInspector) {
        self.inspector = inspector
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
        case .body(let part):
            if let count = body?.count, count + part.readableBytes <= WebhookInspector.maximumBytes {
                body?.append(contentsOf: part.readableBytesView)
            } else {
                body = nil
            }
        case .end:
            guard let head else { return }
            self.head = nil
            let (status, text) = inspector.take(head, body)
            Terminal.output(text)
            write(status, to: head, in: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func write(_ status: Int, to request: HTTPRequestHead, in context: ChannelHandlerContext) {
        let keepAlive = request.isKeepAlive
        var headers = HTTPHeaders()
        if status != 204, status != 304 { headers.add(name: "content-length", value: "0") }
        if !keepAlive { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            if !keepAlive { channel.close(promise: nil) }
        }
    }
}
