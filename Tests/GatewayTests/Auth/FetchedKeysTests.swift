import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing
import Tokens

/// The keys that an identity provider publishes: their discovery, rotation, and an unreachable provider.
@Suite(.timeLimit(.minutes(10))) struct FetchedKeysTests {
    /// A gateway with a provider and two tenants. Ada and Bob belong to the `first`.
    private static func fixture(_ provider: KeyProvider) async throws -> TwoTenantFixture {
        var tokens = LiveGateway.tokens
        tokens.own.jwksURL = provider.url
        return try await TwoTenantFixture(tokens: tokens)
    }

    private static func status(_ fixture: TwoTenantFixture, _ key: IdentityKey, user: UUID = UUID()) async throws
        -> Reply
    {
        let expires = fixture.gateway.clock.now.seconds + 1_000_000
        let token = try key.token(organization: fixture.ada.organization, user: user, expires: expires)
        return try await send(.GET, fixture.gateway.address + "/v1/changes", token: token)
    }

    /// Polls until the keys are cached, because the gateway fetches them asynchronously.
    private static func expectAccepted(_ fixture: TwoTenantFixture, _ key: IdentityKey) async throws {
        try await waitUntil("the keys are cached") {
            let reply = try await status(fixture, key)
            #expect([200, 401, 503].contains(reply.status))
            return reply.status == 200
        }
    }

    @Test func `key rotation takes effect within one request`() async throws {
        let (first, second) = (IdentityKey("1"), IdentityKey("2"))
        let provider = try await KeyProvider(.document(IdentityKey.jwks(first), etag: "\"1\""))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        #expect(try await Self.status(fixture, second).status == 401)

        fixture.gateway.clock.advance(seconds: 30)
        provider.behave(.document(IdentityKey.jwks(second), etag: "\"2\""))
        let asked = provider.count
        #expect(try await Self.status(fixture, first).status == 200, "for a known key, the keys are not fetched again")
        #expect(try await Self.status(fixture, second).status == 200)
        #expect(provider.count == asked + 1)
        let user = UUID()
        for _ in 0..<2 {
            let refused = try await Self.status(fixture, first, user: user)
            expectProblem(refused, .unauthorized, errors: [])
            #expect(refused.header("www-authenticate").first?.hasPrefix(#"Bearer error="invalid_token""#) == true)
        }
        #expect(try await fixture.ada.get("/v1/changes").status == 200, "the secret is still valid")
    }

    @Test func `rejects a valid token after its key is withdrawn`() async throws {
        let (first, second) = (IdentityKey("1"), IdentityKey("2"))
        let provider = try await KeyProvider(.document(IdentityKey.jwks(first, second)))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        let expires = fixture.gateway.clock.now.seconds + 1_000_000
        let token = try first.token(organization: fixture.ada.organization, user: UUID(), expires: expires)
        let url = fixture.gateway.address + "/v1/changes"
        #expect(try await send(.GET, url, token: token).status == 200)
        provider.behave(.document(IdentityKey.jwks(second)))
        fixture.gateway.clock.advance(seconds: 601)
        try await waitUntil("the key is gone") { try await send(.GET, url, token: token).status != 200 }
        #expect(try await send(.GET, url, token: token).status == 401)
        #expect(try await Self.status(fixture, second).status == 200)
    }

    @Test func `an unreachable or broken provider leaves the cached keys in use`() async throws {
        let first = IdentityKey("1")
        let provider = try await KeyProvider(.document(IdentityKey.jwks(first)))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        let manners: [KeyProvider.Manner] = [
            .status(500), .status(404), .status(302, headers: [("Location", "/other")]), .document("not JSON"),
            .document(#"{"keys":[7]}"#), .status(304),
            .document(String(repeating: " ", count: 1_100_000) + IdentityKey.jwks(IdentityKey("2"))),
        ]
        for manner in manners {
            provider.behave(manner)
            let asked = provider.count
            fixture.gateway.clock.advance(seconds: 601)
            try await waitUntil("it is asked") { provider.count > asked }
            #expect(try await Self.status(fixture, first).status == 200)
        }
        try await provider.end()
        fixture.gateway.clock.advance(seconds: 3_600)
        #expect(try await Self.status(fixture, first).status == 200)
        expectProblem(try await Self.status(fixture, IdentityKey("2")), .unauthorized, errors: [])
        #expect(try await Self.status(fixture, first).status == 200)
    }

    @Test func `many unknown keys cause one fetch in thirty seconds`() async throws {
        let first = IdentityKey("1")
        let provider = try await KeyProvider(.document(IdentityKey.jwks(first)))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        fixture.gateway.clock.advance(seconds: 30)
        for round in 1...2 {
            let asked = provider.count
            let refused = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<300 {
                    group.addTask { try await Self.status(fixture, IdentityKey("storm-\(round)-\(number)")).status }
                }
                return try await group.reduce(into: 0) { $0 += $1 == 401 ? 1 : 0 }
            }
            #expect(refused == 300)
            #expect(provider.count == asked + 1)
            #expect(try await Self.status(fixture, first).status == 200)
            fixture.gateway.clock.advance(seconds: 30)
        }
    }

    @Test func `a provider that never answers delays requests only briefly`() async throws {
        let first = IdentityKey("1")
        let provider = try await KeyProvider(.document(IdentityKey.jwks(first)))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        fixture.gateway.clock.advance(seconds: 30)
        provider.behave(.silence)
        let start = ContinuousClock.now
        expectProblem(try await Self.status(fixture, IdentityKey("2")), .unauthorized, errors: [])
        #expect(ContinuousClock.now - start < .seconds(120), "the gateway abandons the fetch after three seconds")
        #expect(try await Self.status(fixture, first).status == 200)
    }

    @Test func `published symmetric keys are ignored`() async throws {
        let first = IdentityKey("1")
        let secret = Array("a secret that a tenant published by mistake".utf8)
        let published = #"{"kty":"oct","kid":"s","alg":"HS256","k":"\#(Data(secret).base64EncodedString())"}"#
        let provider = try await KeyProvider(.document(#"{"keys":[\#(published),\#(first.jwk)]}"#))
        let fixture = try await Self.fixture(provider)
        try await Self.expectAccepted(fixture, first)
        let expires = fixture.gateway.clock.now.seconds + 60
        for secret in [secret, Array(first.pem.utf8), Array(first.jwk.utf8)] {
            for id in [nil, "s", "1"] {
                let forged = IdentityKey.token(
                    secret: secret,
                    organization: fixture.ada.organization,
                    user: fixture.ada.user,
                    id: id,
                    expires: expires
                )
                expectProblem(
                    try await send(.GET, fixture.gateway.address + "/v1/changes", token: forged),
                    .unauthorized,
                    errors: []
                )
            }
        }
    }

    @Test func `a gateway starts while its provider is unreachable, reports this and recovers`() async throws {
        let port = try LoopbackPort.reserve()
        let url = "http://127.0.0.1:\(port)/keys.json?client=hushhush"
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try GatewayProcess(
            database: database.uri,
            settings: [
                "SLUICE_JWT_SECRET": "", "SLUICE_JWT_JWKS_URL": url, "SLUICE_JWT_EXCLUSIVE_KEYS": "yes",
                "SLUICE_LOG_LEVEL": "trace",
            ]
        )
        let notReady = try await Self.readiness(of: gateway) { $0.status == 503 && $0.text.contains("keys of") }
        #expect(
            notReady.json?["reasons"]?.elements.map(Array.init)?.map(\.string) == [
                "the keys of http://127.0.0.1:\(port)/keys.json have not been fetched yet"
            ]
        )
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        let key = IdentityKey("1")
        let expires = Int64(Date.now.timeIntervalSince1970) + 600
        let token = try key.token(organization: organization, user: UUID(), expires: expires)
        let refused = try await GatewayProcess.get(gateway.address + "/v1/changes", token: token)
        expectProblem(refused, .keysUnavailable, errors: [])
        #expect((refused.header("retry-after").first.flatMap(Int.init) ?? 0) >= 1)
        #expect(refused.text.contains("cannot be fetched at present"))
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: "x.y.z").status == 401)
        let metrics = try await GatewayProcess.get(gateway.operations + "/metrics", token: "").text
        #expect(metrics.contains("\nsluice_jwks_missing 1\n"))
        #expect(!metrics.contains("\nsluice_jwks_age_seconds"))

        let provider = try await KeyProvider(.document(IdentityKey.jwks(key)), port: port)
        _ = try await Self.readiness(of: gateway) { $0.status == 200 }
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: token).status == 200)
        let after = try await GatewayProcess.get(gateway.operations + "/metrics", token: "").text
        #expect(after.contains("\nsluice_jwks_missing 0\n"))
        #expect(after.contains("\nsluice_jwks_age_seconds "))
        #expect(after.contains("\nsluice_jwks_refreshes_total{outcome=\"changed\"} 1\n"))
        if Promtool.path != nil { #expect(try await Promtool.remarks(on: Array(after.utf8)) == "") }
        #expect(provider.requests.first?.uri == "/keys.json?client=hushhush")
        #expect(try await gateway.terminate() == 0)
        let warnings = gateway.lines.filter { $0["message"]?.string?.hasPrefix("Token keys could not") == true }
        #expect(
            warnings.filter { $0["level"]?.string == "warning" }.count == 1,
            "the warning is logged once in ten minutes"
        )
        #expect(!gateway.log.contains("hushhush"))
    }

    private static func readiness(of gateway: GatewayProcess, _ isWanted: (Reply) -> Bool) async throws -> Reply {
        var found: Reply?
        try await waitUntil("the expected readiness", every: .milliseconds(20)) {
            if let status = gateway.status { throw Program.Failure("ended with \(status): \(gateway.log)") }
            if let reply = try? await GatewayProcess.get(gateway.operations + "/readyz", token: ""), isWanted(reply) {
                found = reply
            }
            return found != nil
        }
        return try #require(found)
    }

    @Test func `an issuer without keys does not make the gateway unready`() async throws {
        let port = try LoopbackPort.reserve()
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: [
                "SLUICE_JWT_JWKS_URL": "http://127.0.0.1:\(port)/keys.json", "SLUICE_JWT_EXCLUSIVE_KEYS": "yes",
            ]
        )
        let ready = try await GatewayProcess.get(gateway.operations + "/readyz", token: "")
        #expect(ready.status == 200)
        #expect(ready.json?["notices"]?.elements?.count == 1)
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
    }

    @Test func `reloads a key file and ignores a broken one`() async throws {
        let (first, second) = (IdentityKey(nil), IdentityKey(nil))
        let file = try TemporaryFile(first.pem)
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: [
                "SLUICE_JWT_SECRET": "", "SLUICE_JWT_KEYS_FILE": file.path, "SLUICE_JWT_EXCLUSIVE_KEYS": "yes",
            ]
        )
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        let expires = Int64(Date.now.timeIntervalSince1970) + 600
        let old = try first.token(organization: organization, user: UUID(), expires: expires)
        let new = try second.token(organization: organization, user: UUID(), expires: expires)
        let url = gateway.address + "/v1/changes"
        #expect(try await GatewayProcess.get(url, token: old).status == 200)
        #expect(try await GatewayProcess.get(url, token: new).status == 401)

        try "-----BEGIN PUBLIC KEY-----\nhushhush\n".write(toFile: file.path, atomically: true, encoding: .utf8)
        try await gateway.metric("sluice_jwt_files_broken", reaches: 1)
        #expect(try await GatewayProcess.get(url, token: old).status == 200)
        // the metric may change shortly before the log
        try await waitUntil("the log reports it") { gateway.lines.contains { $0["level"]?.string == "error" } }
        let errors = gateway.lines.filter { $0["level"]?.string == "error" }
        #expect(errors.count == 1)
        #expect(errors.first?["error"]?.string?.contains(file.path) == true)
        #expect(!gateway.log.contains("hushhush"))

        try second.pem.write(toFile: file.path, atomically: true, encoding: .utf8)
        try await gateway.metric("sluice_jwt_files_broken", reaches: 0)
        #expect(try await GatewayProcess.get(url, token: new).status == 200)
        #expect(try await GatewayProcess.get(url, token: old).status == 401)
    }
}
