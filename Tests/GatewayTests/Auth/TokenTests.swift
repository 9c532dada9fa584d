import Crypto
import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing
import Tokens

/// `Authorization: Bearer JWT`, on every route of `/v1`.
@Suite struct TokenTests {
    private static let routes: [(HTTPMethod, String)] = [
        (.POST, "/v1/mutations"), (.GET, "/v1/mutations"), (.GET, "/v1/mutations/\(UUID().lowercased)"),
        (.POST, "/v1/id-mappings/lookup"), (.GET, "/v1/changes"),
    ]

    /// Expects a rejection with a challenge that names the error, and no change.
    private static func expectRefused(
        _ fixture: TwoTenantFixture,
        _ authorization: String?,
        _ error: String?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let headers = authorization.map { [("Authorization", $0)] } ?? []
        let body = fixture.ada.envelope([fixture.ada.create()])
        for (method, path) in routes {
            let reply = try await send(
                method,
                fixture.gateway.address + path,
                headers: headers,
                body: method == .POST ? Array(body.utf8) : nil
            )
            expectProblem(reply, .unauthorized, errors: [], sourceLocation: sourceLocation)
            let challenges = reply.header("www-authenticate")
            #expect(challenges.count == 1, sourceLocation: sourceLocation)
            let challenge = challenges.first ?? ""
            if let error {
                #expect(
                    challenge.hasPrefix(#"Bearer error="\#(error)", error_description=""#),
                    "\(challenge)",
                    sourceLocation: sourceLocation
                )
            } else {
                #expect(challenge == "Bearer", sourceLocation: sourceLocation)
            }
        }
    }

    private static func base64(_ text: String) -> String { base64(Data(text.utf8)) }

    private static func base64(_ data: Data) -> String {
        data.base64EncodedString()
            .replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    private static func token(
        _ claims: String,
        header: String = #"{"alg":"HS256","typ":"JWT"}"#,
        secret: [UInt8] = LiveGateway.tokens.own.secret ?? []
    ) -> String {
        let signed = base64(header) + "." + base64(claims)
        let code = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: SymmetricKey(data: secret))
        return signed + "." + base64(Data(code))
    }

    private static func claims(_ fixture: TwoTenantFixture, _ changes: [String: String?] = [:]) -> String {
        let now = fixture.gateway.clock.now.seconds
        let all: [String: String?] = [
            "sub": fixture.ada.user.quoted, "org": fixture.ada.organization.quoted, "exp": "\(now + 60)",
        ]
        let members = all.merging(changes) { $1 }.compactMapValues { $0 }
        return "{" + members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
            + "}"
    }

    @Test func `without a token the challenge contains no error`() async throws {
        let fixture = try await TwoTenantFixture()
        let tables = try await fixture.tables()
        try await Self.expectRefused(fixture, nil, nil)
        #expect(try await fixture.tables() == tables)
    }

    @Test func `a malformed authorization header is an invalid request`() async throws {
        let fixture = try await TwoTenantFixture()
        let tables = try await fixture.tables()
        for value in ["Bearer", "Bearer ", "Basic YTpi", fixture.ada.token, "Bearer a b", "Bearer \"x\"", "Bearer a,b"]
        {
            try await Self.expectRefused(fixture, value, "invalid_request")
        }
        #expect(try await fixture.tables() == tables)
    }

    @Test func `a malformed token or a token with a wrong signature is invalid`() async throws {
        let fixture = try await TwoTenantFixture()
        let good = Self.claims(fixture)
        let parts = fixture.ada.token.split(separator: ".").map(String.init)
        let forged = [
            "x", "..", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".", fixture.ada.token + ".",
            fixture.ada.token + "=", "." + fixture.ada.token,
            // a payload that was not signed, a signature of another payload, and a signature by another secret
            parts[0] + "." + Self.base64(Self.claims(fixture, ["sub": fixture.bob.user.quoted])) + "." + parts[2],
            parts[0] + "." + parts[1] + "." + Self.base64(Data(repeating: 0, count: 32)),
            Self.token(good, secret: Array("another secret, as long as the right one is".utf8)),
            Self.token(good, secret: []),
            // no algorithm, other algorithms, and a confused algorithm
            Self.base64(#"{"alg":"none"}"#) + "." + Self.base64(good) + ".",
            Self.token(good, header: #"{"alg":"none"}"#), Self.token(good, header: #"{"alg":"None","typ":"JWT"}"#),
            Self.token(good, header: #"{"alg":"RS256"}"#), Self.token(good, header: #"{"alg":"HS512"}"#),
            Self.token(good, header: #"{"alg":"hs256"}"#), Self.token(good, header: #"{"typ":"JWT"}"#),
            Self.token(good, header: #"{"alg":"HS256","crit":["exp"]}"#), Self.token(good, header: "[]"),
            Self.token(good, header: "not JSON"), Self.token("not JSON"), Self.token("[]"), Self.token("null"),
        ]
        let tables = try await fixture.tables()
        for token in forged { try await Self.expectRefused(fixture, "Bearer " + token, "invalid_token") }
        #expect(try await fixture.tables() == tables)
        #expect(try await fixture.ada.get("/v1/mutations").status == 200)
    }

    @Test func `missing or malformed claims make a token invalid`() async throws {
        let fixture = try await TwoTenantFixture()
        let now = fixture.gateway.clock.now.seconds
        let changes: [[String: String?]] = [
            ["exp": nil], ["exp": "null"], ["exp": #""\#(now + 60)""#], ["exp": "1e300"], ["exp": "-1"],
            ["exp": "\(now)"], ["exp": "\(now - 1)"], ["exp": "true"],
            ["nbf": "\(now + 1)"], ["nbf": #""soon""#],
            ["sub": nil], ["sub": "1"], ["sub": #""""#], ["sub": #""a\tb""#], ["sub": "null"],
            ["sub": "[\(UUID().quoted)]"],
            ["org": nil], ["org": #""""#], ["org": "[\(UUID().quoted)]"], ["org": "{}"],
        ]
        let tables = try await fixture.tables()
        for change in changes {
            let token = Self.token(Self.claims(fixture, change))
            try await Self.expectRefused(fixture, "Bearer " + token, "invalid_token")
        }
        #expect(try await fixture.tables() == tables)
        for change in [["nbf": "\(now)"], ["exp": "\(now + 1).5"], ["iss": #""anyone""#], ["aud": #"["a","b"]"#]] {
            let token = Self.token(Self.claims(fixture, change))
            let reply = try await send(.GET, fixture.gateway.address + "/v1/mutations", token: token)
            #expect(reply.status == 200, "\(change): \(reply.text)")
        }
        let capitals = Self.token(
            Self.claims(fixture, ["sub": #""\#(fixture.ada.user.uuidString)""#])
        )
        #expect(try await send(.GET, fixture.gateway.address + "/v1/mutations", token: capitals).status == 200)
    }

    @Test func `a cached token still expires`() async throws {
        let fixture = try await TwoTenantFixture()
        let token = try await fixture.gateway.token(
            organization: fixture.ada.organization,
            user: fixture.ada.user,
            seconds: 10
        )
        let url = fixture.gateway.address + "/v1/changes"
        #expect(try await send(.GET, url, token: token).status == 200)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await send(.GET, url, token: token).status == 200)
        fixture.gateway.clock.advance(seconds: 1)
        try await Self.expectRefused(fixture, "Bearer " + token, "invalid_token")
        #expect(try await fixture.ada.get("/v1/changes").status == 200)
    }

    @Test func `rejects a token that is too long without parsing it`() async throws {
        let fixture = try await TwoTenantFixture()
        let long = #""\#(String(repeating: "x", count: 6_000))""#
        let token = Self.token(Self.claims(fixture, ["extra": long]))
        #expect(token.utf8.count > TokenVerifier.maximumTokenBytes)
        try await Self.expectRefused(fixture, "Bearer " + token, "invalid_token")
        let shorter = Self.token(Self.claims(fixture, ["extra": #""\#(String(repeating: "x", count: 5_000))""#]))
        #expect(try await send(.GET, fixture.gateway.address + "/v1/changes", token: shorter).status == 200)
    }

    @Test func `issuer, audience and claim names follow the settings`() async throws {
        var tokens = LiveGateway.tokens
        tokens.own.issuer = "https://id.example"
        tokens.own.audience = "sluice"
        tokens.own.places.user = ClaimPlace(named: "uid")
        let fixture = try await TwoTenantFixture(tokens: tokens)
        #expect(try await fixture.ada.get("/v1/mutations").status == 200)
        let right: [String: String?] = [
            "iss": #""https://id.example""#, "aud": #"["other","sluice"]"#, "uid": fixture.ada.user.quoted,
        ]
        let token = Self.token(Self.claims(fixture, right))
        #expect(try await send(.GET, fixture.gateway.address + "/v1/mutations", token: token).status == 200)
        for change: [String: String?] in [
            ["iss": nil], ["iss": #""https://id.example/""#], ["iss": "1"], ["aud": nil], ["aud": #""Sluice""#],
            ["aud": "[]"], ["aud": "{}"], ["uid": nil],
        ] {
            let wrong = Self.token(Self.claims(fixture, right.merging(change) { $1 }))
            try await Self.expectRefused(fixture, "Bearer " + wrong, "invalid_token")
        }
    }
}
