import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import StandardWebhooks
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `POST /v1/sources/{organization}/{source}` and the operator's actions on sources, over HTTP.
@Suite struct SourcesOverHTTPTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let other = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"

    /// The example of docs/ingest.md below a heading, in this language.
    private static func example(_ language: String, below heading: String) throws -> String {
        let page = try Repository.text("docs/ingest.md")
        let section = try #require(page.components(separatedBy: "### \(heading)\n").last)
        return try #require(section.components(separatedBy: "```\(language)\n").dropFirst().first)
            .components(separatedBy: "```")[0]
    }

    private func put(_ fixture: TwoTenantFixture, _ name: String = "crm", _ body: String? = nil) async throws -> Reply {
        try await fixture.operate(
            .PUT,
            "\(fixture.admin)/sources/\(name)",
            try body ?? Self.example("json", below: "Mapping")
        )
    }

    /// Sends a message as a Standard Webhooks library would.
    private func send(
        _ fixture: TwoTenantFixture,
        _ body: String,
        id: String = "msg_1",
        secret: String? = Self.secret,
        key: WebhookSigningKey? = nil,
        to path: String? = nil,
        age: Int64 = 0,
        signed: String? = nil
    ) async throws -> Reply {
        let signer = WebhookSigner(secrets: [secret].compactMap { $0.flatMap(WebhookSecret.init) }, key: key)
        let headers = try signer.headers(
            id: id,
            timestamp: fixture.gateway.clock.now.seconds - age,
            body: Array((signed ?? body).utf8)
        )
        return try await GatewayTests.send(
            .POST,
            fixture.gateway.address + (path ?? "/v1/sources/\(fixture.ada.organization.lowercased)/crm"),
            headers: headers.map { ($0.name, $0.value) },
            body: Array(body.utf8)
        )
    }

    private func message(_ revision: Int, _ members: String = "") -> String {
        let contact = #"{"id": 4711, "revision": \#(revision)\#(members)}"#
        return
            #"{"timestamp": "2026-11-20T07:00:00Z", "data": {"changes": [{"type": "contact.updated", "contact": \#(contact)}]}}"#
    }

    private func expectPlaces(_ reply: Reply, _ pointers: [String], location: SourceLocation = #_sourceLocation) {
        expectProblem(reply, .validationFailed, sourceLocation: location)
        let places = reply.json?["errors"]?.elements?.map { $0["pointer"]?.string ?? "-" }
        #expect(places == pointers, "\(reply.text)", sourceLocation: location)
    }

    // MARK: - Messages

    @Test func `the page's example works as documented`() async throws {
        let fixture = try await TwoTenantFixture()
        let made = try await put(fixture)
        #expect(made.status == 201, "\(made.text)")
        #expect(made.json?["secret"]?.isNull == true && !made.text.contains(Self.secret))
        let body = try Self.example("json", below: "Webhook sources")
        let reply = try await send(fixture, body)
        #expect(reply.status == 200, "\(reply.text)")
        let shown = try JSONTree(parsing: Array(Self.example("text", below: "Webhook sources").utf8)).root
        #expect(reply.json?["results"]?.text == shown["results"]?.text.filter { !$0.isWhitespace })
        #expect(reply.json?["ignored"]?.int64 == shown["ignored"]?.int64)
        let page = try await fixture.ada.get("/v1/changes")
        #expect(page.changes.first?["document"]?["name"]?.string == "Kari Nordmann")
        #expect(page.next == reply.json?["feed"]?.string)
        let again = try await send(fixture, body)
        #expect(again.status == 200 && again.results.first?["result"]?.string == "duplicate", "\(again.text)")
        let row = try await fixture.operate(.GET, fixture.admin + "/sources/crm")
        #expect(row.json?["activity"]?.string == "receiving" && row.json?["last_success_at"]?.string != nil)
        #expect(
            try await fixture.metrics().contains(#"sluice_source_runs_total{kind="webhook",outcome="succeeded"} 2"#)
        )
        #expect(
            try await fixture.metrics().contains(#"sluice_source_events_total{kind="webhook",result="ignored"} 2"#)
        )
    }

    @Test func `a message wakes waiting pulls, but is rejected by pointer until the mapping is correct`() async throws {
        let fixture = try await TwoTenantFixture()
        let name = #""name": "x""#
        let mapping = """
            {"kind": "webhook", "secret": "\(Self.secret)", "settings": {"mapping": {"rules": [
              {"entity_type": "contact", "operation": "upsert", "id": "/data/id", "version": "/data/REV",
               "document": "/data"}]}}}
            """
        #expect(try await put(fixture, "crm", mapping).status == 201)
        let body = #"{"data": {"id": 1, "rev": 1, \#(name)}}"#
        let refused = try await send(fixture, body)
        expectPlaces(refused, ["/data/REV"])
        let row = try await fixture.operate(.GET, fixture.admin + "/sources/crm")
        #expect(row.json?["failure_count"]?.int64 == 1 && row.json?["failing_since"]?.string != nil)
        #expect(row.json?["last_error"]?.string?.contains("/data/REV") == true, "\(row.text)")
        #expect(try await fixture.ada.get("/v1/changes").changes.isEmpty)
        #expect(try await put(fixture, "crm", mapping.replacing("REV", with: "rev")).status == 200)
        #expect(try await send(fixture, body).status == 200)
        let corrected = try await fixture.operate(.GET, fixture.admin + "/sources/crm")
        #expect(corrected.json?["failure_count"]?.int64 == 0 && corrected.json?["last_error"]?.isNull == true)
    }

    /// In an earlier version, the sender got 500 or 413 for days, and the source counted as working.
    @Test func `a message that the store can never accept counts as a failure of its source`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        try await fixture.execute("ALTER TABLE ingested_events ADD CONSTRAINT broken CHECK (result <> 'applied')")
        let body = message(1)
        #expect(try await send(fixture, body).status == 500)
        let failing = try await fixture.operate(.GET, fixture.admin + "/sources/crm")
        #expect(failing.json?["failure_count"]?.int64 == 1 && failing.json?["last_error"]?.string != nil)
        try await fixture.execute("ALTER TABLE ingested_events DROP CONSTRAINT broken")
        #expect(try await send(fixture, body).status == 200)
        let corrected = try await fixture.operate(.GET, fixture.admin + "/sources/crm")
        #expect(corrected.json?["failure_count"]?.int64 == 0 && corrected.json?["last_error"]?.isNull == true)
    }

    @Test func `accepts the valid part of a message, which the sender repeats for the rest`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        let good = #"{"type": "contact.updated", "contact": {"id": 1, "revision": 1}}"#
        let bad = #"{"type": "contact.updated", "contact": {"id": 2}}"#
        let body = #"{"data": {"changes": [\#(good), \#(bad)]}}"#
        for _ in 0..<2 {
            expectPlaces(try await send(fixture, body), ["/data/changes/1/contact/revision"])
            #expect(try await fixture.ada.get("/v1/changes").changes.count == 1)
        }
    }

    @Test func `a rejected message is answered 422 regardless of the event's own code`() async throws {
        let fixture = try await TwoTenantFixture { $0.joinSettling = 0 }
        let erased = fixture.bob.user.lowercased
        _ = try await fixture.bob.push([fixture.bob.create("note")])
        let gone = try await fixture.operate(.DELETE, "\(fixture.admin)/users/\(erased)?erase=true")
        #expect((200..<300).contains(gone.status), "\(gone.text)")
        let mapping = """
            {"kind": "webhook", "secret": "\(Self.secret)", "settings": {"mapping": {"rules": [
              {"entity_type": "contact", "operation": "upsert", "id": "/id", "version": "/v", "document": "",
               "owner": "/owner"}]}}}
            """
        #expect(try await put(fixture, "crm", mapping).status == 201)
        let reply = try await send(fixture, #"{"id": 1, "v": 1, "owner": "\#(erased)"}"#)
        expectPlaces(reply, ["/owner"])
        #expect(reply.text.contains("owner_must_not_be_erased"))
        #expect(
            try await send(fixture, #"{"id": 1, "v": 1, "owner": "\#(fixture.ada.user.lowercased)"}"#).status == 200
        )
    }

    @Test func `answers 400 to a body that is not JSON, but only with a valid signature`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        expectProblem(try await send(fixture, "{"), .invalidJSON)
        expectProblem(try await send(fixture, "{", secret: Self.other), .unauthorized, errors: [])
        expectPlaces(try await send(fixture, #"{"data": 7}"#), ["/data/changes"])
        let repeated = try await send(fixture, #"{"data": {"changes": []}, "data": {"changes": [1]}}"#)
        #expect(repeated.status == 400 && repeated.text.contains("more than one member"), "\(repeated.text)")
    }

    @Test func `ignores a byte order mark before a message, which is part of the signature`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        let reply = try await send(fixture, "\u{feff}" + message(1))
        #expect(reply.status == 200, "\(reply.text)")
        expectProblem(try await send(fixture, "\u{feff}\u{feff}" + message(2), id: "msg_2"), .invalidJSON)
    }

    // MARK: - Access

    @Test func `a sender without a valid signature cannot discover sources`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        let foreign = "/admin/organizations/\(fixture.eve.organization.lowercased)/sources/theirs"
        let theirs = try Self.example("json", below: "Mapping").replacing(Self.secret, with: Self.other)
        #expect(try await fixture.operate(.PUT, foreign, theirs).status == 201)
        let (ada, eve) = (fixture.ada.organization.lowercased, fixture.eve.organization.lowercased)
        let body = message(1)
        var replies = [
            try await send(fixture, body, secret: Self.other),
            try await send(fixture, body, signed: body + " "),
            try await send(fixture, body, secret: nil, key: WebhookSigningKey()),
            try await send(fixture, body, age: 301), try await send(fixture, body, age: -301),
        ]
        for path in ["\(ada)/nobody", "\(eve)/crm", "\(UUID().lowercased)/crm", "x/crm", "\(ada)/X", "\(ada)/theirs"] {
            replies.append(try await send(fixture, body, to: "/v1/sources/" + path))
        }
        // a secret is valid only for its own source
        replies.append(try await send(fixture, body, to: "/v1/sources/\(eve)/theirs"))
        #expect(
            try await put(fixture, "asleep", theirs.replacing(#"{"kind""#, with: #"{"status":"disabled","kind""#))
                .status
                == 201
        )
        replies.append(try await send(fixture, body, secret: Self.other, to: "/v1/sources/\(ada)/asleep"))
        for reply in replies { expectProblem(reply, .unauthorized, errors: []) }
        #expect(Set(replies.map { $0.text.replacing(/"request_id":"[^"]*"/, with: "") }).count == 1)
        #expect(Set(replies.map { $0.header("www-authenticate") }).count == 1)
        for worker in [fixture.ada, fixture.eve] { #expect(try await worker.get("/v1/changes").changes.isEmpty) }
        #expect(try await send(fixture, body, secret: Self.other, to: "/v1/sources/\(eve)/theirs").status == 200)
        #expect(try await fixture.ada.get("/v1/changes").changes.isEmpty)
        #expect(try await fixture.eve.get("/v1/changes").changes.count == 1)
    }

    @Test func `a public key verifies a sender's signature`() async throws {
        let fixture = try await TwoTenantFixture()
        let key = WebhookSigningKey()
        let body = try Self.example("json", below: "Mapping").replacing(Self.secret, with: key.publicKey.text)
        #expect(try await put(fixture, "crm", body).status == 201)
        #expect(try await send(fixture, message(1), secret: nil, key: key).status == 200)
        expectProblem(
            try await send(fixture, message(2), secret: nil, key: WebhookSigningKey()),
            .unauthorized,
            errors: []
        )
    }

    @Test func `both secrets are valid during a rotation`() async throws {
        let fixture = try await TwoTenantFixture()
        let made = try await put(
            fixture,
            "crm",
            try Self.example("json", below: "Mapping").replacing(#""secret": "\#(Self.secret)","#, with: "")
        )
        let first = try #require(made.json?["secret"]?.string)
        #expect(try await send(fixture, message(1), id: "a", secret: first).status == 200)
        let path = fixture.admin + "/sources/crm/secret"
        let rotated = try await fixture.operate(.POST, path, #"{"secret":"\#(Self.other)","overlap_seconds":60}"#)
        #expect(rotated.status == 200 && rotated.json?["secret"]?.isNull == true, "\(rotated.text)")
        for (id, secret) in [("b", first), ("c", Self.other)] {
            #expect(try await send(fixture, message(1), id: id, secret: secret).status == 200)
        }
        fixture.gateway.clock.advance(seconds: 61)
        expectProblem(try await send(fixture, message(1), id: "d", secret: first), .unauthorized, errors: [])
        #expect(try await send(fixture, message(1), id: "e", secret: Self.other).status == 200)
        let made2 = try await fixture.operate(.POST, path)
        let third = try #require(made2.json?["secret"]?.string)
        #expect(try await send(fixture, message(1), id: "f", secret: third).status == 200)
    }

    @Test func `a suspended organization rejects messages, and a message counts towards the quota`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        let settings = #"{"settings":{"requests_per_second":2}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin, settings).status == 200)
        for _ in 0..<10 {
            // a sender without the secret uses no quota
            expectProblem(try await send(fixture, message(1), secret: Self.other), .unauthorized, errors: [])
        }
        var statuses: [Int] = []
        for number in 0..<4 { statuses.append(try await send(fixture, message(1), id: "q\(number)").status) }
        #expect(statuses.first == 200 && statuses.contains(429), "\(statuses)")
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        expectProblem(try await send(fixture, message(1)), .organizationSuspended)
    }

    // MARK: - Operators

    @Test func `a test returns the events of a body and changes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await put(fixture).status == 201)
        let body = try Self.example("json", below: "Webhook sources")
        let path = fixture.admin + "/sources/crm/test"
        let before = try await fixture.tables()
        let trial = try await fixture.operate(.POST, path, #"{"headers":{"Webhook-Id":"m"},"body":\#(body)}"#)
        #expect(trial.status == 200, "\(trial.text)")
        #expect(trial.json?.value(at: "/events/0/event/event_id")?.string == "m#0")
        #expect(trial.json?.value(at: "/events/0/pointer")?.string == "/data/changes/0")
        #expect(trial.json?["ignored"]?.int64 == 1)
        let nothing = try await fixture.operate(
            .POST,
            path,
            #"{"body":{"data":{"changes":[{"type":"contact.deleted"}]}}}"#
        )
        #expect(nothing.json?.value(at: "/events/0/event")?.isNull == true)
        let places = nothing.json?.value(at: "/events/0/error/errors")?.elements?.compactMap { $0["pointer"]?.string }
        #expect(places == ["/data/changes/0/contact/id"], "\(nothing.text)")
        expectPlaces(try await fixture.operate(.POST, path, #"{"body":{}}"#), ["/body/data/changes"])
        let other =
            #"{"body":{"id":1,"v":2},"mapping":{"rules":[{"entity_type":"x","operation":"delete","id":"/id","version":"/v"}]}}"#
        #expect(try await fixture.operate(.POST, path, other).json?.value(at: "/events/0/event/id")?.int64 == 1)
        #expect(try await fixture.tables() == before)
        #expect(try await fixture.operate(.POST, fixture.admin + "/sources/nobody/test", other).status == 404)
    }

    @Test func `lists, changes and removes a source, and names errors by pointer`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/sources"
        #expect(try await fixture.operate(.GET, path).text == #"{"sources":[]}"#)
        let bad =
            #"{"kind":"webhook","settings":{"mapping":{"rules":[{"id":"x"}]}},"secret":"weak","status":"on","more":1}"#
        expectPlaces(
            try await put(fixture, "crm", bad),
            [
                "/status", "/more", "/settings/mapping/rules/0/id", "/settings/mapping/rules/0/entity_type",
                "/settings/mapping/rules/0/operation", "/settings/mapping/rules/0/version", "/secret",
            ]
        )
        expectPlaces(try await put(fixture, "crm", "{}"), ["/kind", "/settings"])
        let leak = try await put(fixture, "crm", bad.replacing("weak", with: "whsec_secretsecret"))
        #expect(!leak.text.contains("secretsecret"))
        #expect(try await put(fixture).status == 201)
        #expect(try await put(fixture).status == 200)
        let list = try await fixture.operate(.GET, path)
        #expect(list.json?.value(at: "/sources/0/name")?.string == "crm" && !list.text.contains(Self.secret))
        expectProblem(try await fixture.operate(.POST, path + "/crm/run"), .statusTransitionMustBeValid, errors: [])
        #expect(try await fixture.operate(.PUT, path + "/No", try Self.example("json", below: "Mapping")).status == 404)
        #expect(try await fixture.operate(.DELETE, path + "/crm").status == 204)
        #expect(try await fixture.operate(.DELETE, path + "/crm").status == 404)
        expectProblem(try await send(fixture, message(1)), .unauthorized, errors: [])
    }
}
