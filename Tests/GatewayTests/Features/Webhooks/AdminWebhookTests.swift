import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import StandardWebhooks
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/admin/organizations/{id}/webhooks`
@Suite struct AdminWebhookTests {
    private static let url = "https://hooks.example/sluice"

    @Test func `creates, updates, tests and deletes a webhook, and shows its secret once`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/webhooks"
        #expect(try await fixture.operate(.GET, path).text == #"{"webhooks":[],"public_key":null}"#)
        let made = try await fixture.operate(.POST, path, #"{"url":"HTTPS://Hooks.Example/sluice"}"#)
        #expect(made.status == 201)
        let secret = try #require(made.json?["secret"]?.string)
        #expect(WebhookSecret(secret) != nil)
        let id = try #require(made.json?["id"]?.string)
        let now = fixture.gateway.clock.now.rfc3339
        let shown =
            #"{"id":"\#(id)","url":"\#(Self.url)","description":"","events":["mutation.failed","mutation.conflict","#
            + #""lane.halted","upstream.down","upstream.up","user.erased"],"status":"enabled","#
            + #""previous_secret_until":null,"failure_count":0,"failing_since":null,"paused_until":null,"#
            + #""last_error":null,"last_sequence":0,"created_at":"\#(now)","updated_at":"\#(now)"}"#
        #expect(made.text == shown.dropLast() + #","secret":"\#(secret)"}"#)
        #expect(try await fixture.operate(.GET, "\(path)/\(id)").text == shown)
        #expect(try await fixture.operate(.GET, path).text == #"{"webhooks":[\#(shown)],"public_key":null}"#)

        fixture.gateway.clock.advance(seconds: 1)
        let changed = try await fixture.operate(
            .PATCH,
            "\(path)/\(id)",
            #"{"events":["entity.changed","entity.changed"],"description":"ours","status":"disabled"}"#
        )
        #expect(changed.status == 200)
        #expect(changed.json?["events"]?.text == #"["entity.changed"]"#)
        #expect(changed.json?["status"]?.string == "disabled" && changed.json?["description"]?.string == "ours")
        #expect(changed.json?["url"]?.string == Self.url && changed.json?["secret"] == nil)
        let tried = try await fixture.operate(.POST, "\(path)/\(id)/test")
        expectProblem(tried, .statusTransitionMustBeValid, errors: [])
        #expect(try await fixture.operate(.PATCH, "\(path)/\(id)", #"{"status":"enabled"}"#).status == 200)
        let test = try await fixture.operate(.POST, "\(path)/\(id)/test")
        #expect(test.status == 202)
        let delivery = try #require(test.json?["id"]?.string)
        let deliveries = try await fixture.operate(.GET, "\(path)/\(id)/deliveries?status=waiting")
        #expect(deliveries.json?.value(at: "/deliveries/0/id")?.string == delivery)
        #expect(deliveries.json?.value(at: "/deliveries/0/type")?.string == "webhook.test")
        let early = try await fixture.operate(.POST, "\(path)/\(id)/deliveries/\(delivery)/retry")
        expectProblem(early, .statusTransitionMustBeValid, errors: [])
        #expect(try await fixture.operate(.POST, "\(path)/\(id)/deliveries/retry").text == #"{"retried":0}"#)

        let rotated = try await fixture.operate(.POST, "\(path)/\(id)/secret", #"{"overlap_seconds":60}"#)
        #expect(rotated.status == 200)
        let second = try #require(rotated.json?["secret"]?.string)
        #expect(second != secret && WebhookSecret(second) != nil)
        let until = fixture.gateway.clock.now.adding(seconds: 60).rfc3339
        #expect(rotated.json?["previous_secret_until"]?.string == until)
        let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let given = try await fixture.operate(
            .POST,
            "\(path)/\(id)/secret",
            #"{"secret":"\#(own)","overlap_seconds":0}"#
        )
        #expect(given.json?["secret"]?.string == own)
        #expect(given.json?["previous_secret_until"]?.isNull == true)
        #expect(try await !fixture.operate(.GET, "\(path)/\(id)").text.contains("whsec_"))
        #expect(try await !fixture.operate(.GET, path).text.contains("whsec_"))

        #expect(try await fixture.operate(.DELETE, "\(path)/\(id)").status == 204)
        for (method, below) in [
            (HTTPMethod.GET, ""), (.DELETE, ""), (.POST, "/test"), (.POST, "/secret"), (.GET, "/deliveries"),
            (.POST, "/deliveries/retry"), (.POST, "/deliveries/\(delivery)/retry"),
        ] {
            expectProblem(try await fixture.operate(method, "\(path)/\(id)\(below)"), .notFound, errors: [])
        }
        expectProblem(try await fixture.operate(.PATCH, "\(path)/\(id)", "{}"), .notFound, errors: [])
        // the operator's actions remain in the audit log
        #expect(try await fixture.mentions(of: delivery).allSatisfy { $0.key == "audit" || $0.value == 0 })
    }

    @Test func `names invalid webhook members by pointer and reveals no secrets`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/webhooks"
        let cases: [(String, [String])] = [
            ("{}", ["/url member_required"]),
            (#"{"url":1}"#, ["/url member_type"]),
            (#"{"url":"http://hooks.example/"}"#, ["/url member_range"]),
            (#"{"url":"https://127.0.0.1/"}"#, ["/url member_range"]),
            (#"{"url":"https://[::ffff:10.0.0.1]/"}"#, ["/url member_range"]),
            (#"{"url":"https://169.254.169.254/latest"}"#, ["/url member_range"]),
            (#"{"url":"https://user:pass@hooks.example/"}"#, ["/url member_range"]),
            (
                #"{"url":"\#(Self.url)","events":["x","webhook.test",1],"status":"gone","description":1,"secret":"s3cret"}"#,
                [
                    "/events/0 member_range", "/events/1 member_range", "/events/2 member_range",
                    "/status member_range", "/description member_range", "/secret member_range",
                ]
            ),
            (#"{"url":"\#(Self.url)","events":[]}"#, ["/events member_range"]),
            (#"{"url":"\#(Self.url)","events":{}}"#, ["/events member_type"]),
            (#"{"url":"\#(Self.url)","more":1}"#, ["/more member_unknown"]),
        ]
        for (body, errors) in cases {
            let reply = try await fixture.operate(.POST, path, body)
            expectProblem(reply, .validationFailed, errors: errors)
            #expect(!reply.text.contains("s3cret") && !reply.text.contains("pass@"))
        }
        let made = try await fixture.operate(.POST, path, #"{"url":"\#(Self.url)"}"#)
        let id = try #require(made.json?["id"]?.string)
        let secret = try await fixture.operate(
            .PATCH,
            "\(path)/\(id)",
            #"{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#
        )
        expectProblem(secret, .validationFailed, errors: ["/secret member_unknown"])
        let overlap = try await fixture.operate(.POST, "\(path)/\(id)/secret", #"{"overlap_seconds":604801}"#)
        expectProblem(overlap, .validationFailed, errors: ["/overlap_seconds member_range"])
        expectProblem(
            try await fixture.operate(.GET, "\(path)/\(id)/deliveries?status=x"),
            .invalidRequest
        )
        let nobody = "/admin/organizations/\(UUID().lowercased)/webhooks"
        expectProblem(try await fixture.operate(.GET, nobody), .notFound, errors: [])
        expectProblem(try await fixture.operate(.POST, nobody, #"{"url":"\#(Self.url)"}"#), .notFound, errors: [])
    }

    /// A gateway delivers a failure to a receiver that verifies signatures by secret and by key.
    @Test func `delivers a failure to a receiver with a valid signature`() async throws {
        let key = WebhookSigningKey()
        let fixture = try await TwoTenantFixture(#"{"on_failure":"halt"}"#, delivers: key)
        let receiver = try await WebhookReceiver()
        let path = fixture.admin + "/webhooks"
        let made = try await fixture.operate(.POST, path, #"{"url":"\#(receiver.url)/hook"}"#)
        #expect(made.status == 201, "\(made.text)")
        let id = try #require(made.json?["id"]?.string)
        let first = try #require(made.json?["secret"]?.string.flatMap(WebhookSecret.init))
        let rotated = try await fixture.operate(.POST, "\(path)/\(id)/secret")
        let second = try #require(rotated.json?["secret"]?.string.flatMap(WebhookSecret.init))
        let listed = try await fixture.operate(.GET, path)
        let publicKey = try #require(listed.json?["public_key"]?.string.flatMap(WebhookPublicKey.init))

        let draft = fixture.ada.change(server: UUID().lowercased)
        #expect(try await fixture.ada.push([draft]).statuses == ["failed"])
        var received: [WebhookReceiver.Received] = []
        for _ in 0..<2 { received.append(try #require(await receiver.next())) }
        received.sort { ($0.json?["sequence"]?.int64 ?? 0) < ($1.json?["sequence"]?.int64 ?? 0) }
        #expect(received.map { $0.json?["type"]?.string } == ["mutation.failed", "lane.halted"])
        #expect(received[0].json?.value(at: "/data/mutation_id")?.string == draft.id)
        for request in received {
            for verifier in [
                WebhookVerifier(secrets: [first]), WebhookVerifier(secrets: [second]),
                WebhookVerifier(secrets: [], keys: [publicKey]),
            ] {
                try verifier.verify(
                    id: request.header(WebhookHeader.id),
                    timestamp: request.header(WebhookHeader.timestamp),
                    signatures: request.header(WebhookHeader.signature),
                    body: request.body,
                    now: fixture.gateway.clock.now.seconds
                )
            }
        }
        try await waitUntil("both are listed as delivered") {
            let page = try await fixture.operate(.GET, "\(path)/\(id)/deliveries?status=delivered")
            return page.json?["deliveries"]?.elements?.count == 2
        }
    }
}
