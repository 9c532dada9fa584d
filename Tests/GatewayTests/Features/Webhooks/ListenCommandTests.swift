import Foundation
import GatewaySupport
import NIOHTTP1
import StandardWebhooks
import TestSupport
import Testing

/// `sluice webhooks listen`, and the signing key.
@Suite struct ListenCommandTests {
    private static let secret = WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") ?? WebhookSecret()

    /// Returns the program, after it has begun to listen, and its address.
    private func listen(_ arguments: [String]) async throws -> (program: Program, url: String) {
        let program = try Program(["webhooks", "listen", "--port", "0"] + arguments)
        try await waitUntil("it listens") { program.output.contains("until Ctrl-C.\n") || program.status != nil }
        let url = try #require(program.output.firstMatch(of: /http:\/\/127\.0\.0\.1:\d+\//).map { String($0.0) })
        return (program, url)
    }

    private func post(
        _ url: String,
        _ body: String,
        signedBy secret: WebhookSecret = secret,
        at seconds: Int64 = Int64(Date().timeIntervalSince1970),
        key: WebhookSigningKey? = nil
    ) async throws -> Int {
        let headers = try WebhookSigner(secrets: [secret], key: key).headers(
            id: "msg_1",
            timestamp: seconds,
            body: Array(body.utf8)
        )
        return try await send(.POST, url, headers: headers.map { ($0.name, $0.value) }, body: Array(body.utf8)).status
    }

    @Test func `shows messages, whether their signatures are valid, and the reason if not`() async throws {
        let (program, url) = try await listen(["--secret", Self.secret.text])
        #expect(try await post(url + "hook", #"{"type":"webhook.test"}"#) == 204)
        #expect(program.output.contains("POST /hook\n"))
        #expect(program.output.contains("webhook-id: msg_1\n"))
        #expect(program.output.contains("signature: holds\n"))
        #expect(program.output.contains(#"{"type":"webhook.test"}"#))
        #expect(try await post(url, "{}", signedBy: WebhookSecret()) == 400)
        #expect(program.output.contains("INVALID: no signature matches this id, time and body"))
        #expect(try await post(url, "{}", at: 1_000_000_000) == 400)
        #expect(program.output.contains("INVALID: the signature is valid, but"))
        #expect(try await send(.POST, url, body: Array("{}".utf8)).status == 400)
        #expect(program.output.contains("INVALID: the header webhook-id is missing"))
        #expect(try await send(.GET, url).status == 405)
        #expect(!program.output.contains(Self.secret.text))
        program.send(SIGINT)
        #expect(try await program.end() == 0)
    }

    @Test func `a sender's text cannot control the terminal`() async throws {
        let (program, url) = try await listen([])
        #expect(program.output.contains("Signatures are not checked"))
        #expect(try await post(url, "\u{1b}[2J\u{202e}\u{7}x") == 204)
        #expect(program.output.contains(#"\u{1b}[2J\u{202e}\u{7}x"#))
        #expect(!program.output.contains("\u{1b}"))
        #expect(program.output.contains("the body is not JSON"))
        program.send(SIGTERM)
        #expect(try await program.end() == 0)
    }

    @Test func `verifies signatures by key and returns the configured status`() async throws {
        let made = try await Program.run(["webhooks", "create-key"])
        #expect(made.status == 0)
        let key = try #require(WebhookSigningKey(made.output.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(made.complaint.contains(key.publicKey.text))
        let (program, url) = try await listen(["--key", key.publicKey.text, "--answer", "503"])
        #expect(try await post(url, "{}", key: key) == 503)
        #expect(program.output.contains("signature: holds\n"))
        #expect(try await post(url, "{}") == 400)
        program.send(SIGINT)
        #expect(try await program.end() == 0)
    }

    @Test func `explains wrong usage without secrets`() async throws {
        for arguments in [
            ["--port", "70000"], ["--secret", "s3cret"], ["--key", "s3cret"], ["--tolerance", "-1"],
            ["--answer", "99"],
        ] {
            let result = try await Program.run(["webhooks", "listen"] + arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(!result.complaint.contains("s3cret"))
        }
        let (first, url) = try await listen([])
        let port = try #require(url.firstMatch(of: /:(\d+)\//).map { String($0.1) })
        let second = try await Program.run(["webhooks", "listen", "--port", port])
        #expect(second.status == 1 && second.complaint.contains("cannot be used"))
        first.send(SIGINT)
        #expect(try await first.end() == 0)
    }
}
