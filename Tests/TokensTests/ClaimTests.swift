import Foundation
import SyncModel
import Testing

@testable import Tokens

@Suite("Claims")
struct ClaimTests {
    let key = TestKey.hs256(Keys.secret)

    private func verifier(
        _ change: (inout TokenConfiguration) -> Void = { _ in }
    ) async throws -> TokenVerifier {
        var configuration = TokenConfiguration(secret: Keys.secret)
        change(&configuration)
        return try await TokenVerifier(configuration: configuration)
    }

    @Test
    func `A token expires at exp, to the second`() async throws {
        let verifier = try await verifier { $0.cacheCapacity = 0 }
        let token = try key.token(claims())
        #expect(verifier.refusal(token, now: now + 59) == nil)
        #expect(verifier.refusal(token, now: now + 60) == .expired)
    }

    @Test
    func `A token is valid from nbf`() async throws {
        let verifier = try await verifier()
        let token = try key.token(claims(["nbf": now + 10]))
        #expect(verifier.refusal(token, now: now + 9) == .notYetValid(claim: "nbf"))
        #expect(verifier.refusal(token, now: now + 10) == nil)
    }

    @Test
    func `Leeway extends both ends`() async throws {
        let verifier = try await verifier { $0.leewaySeconds = 5 }
        let token = try key.token(claims(["nbf": now + 10]))
        #expect(verifier.refusal(token, now: now + 4) == .notYetValid(claim: "nbf"))
        #expect(verifier.refusal(token, now: now + 5) == nil)
        #expect(verifier.refusal(token, now: now + 64) == nil)
        #expect(verifier.refusal(token, now: now + 65) == .expired)
        #expect(verifier.cached(token, now: now + 65) == nil)
        await #expect(throws: TokenConfigurationError.self) { try await self.verifier { $0.leewaySeconds = 601 } }
    }

    @Test
    func `Fractions of seconds are allowed, other dates are refused`() async throws {
        let verifier = try await verifier()
        #expect(try verifier.verify(key.token(claims(["exp": Double(now) + 1.5])), now: now).expiresAt == now + 1)
        #expect(verifier.refusal(try key.token(claims(["exp": NSNull()]))) == .missingClaim("exp"))
        for value in ["\(now + 60)", 1e300, -1e300, true, [now]] as [Any] {
            #expect(
                verifier.refusal(try key.token(claims(["exp": value])))
                    == .malformedClaim("exp", mustBe: "a number of seconds since 1970")
            )
        }
        #expect(
            verifier.refusal(try key.token(claims(["nbf": "soon"])))
                == .malformedClaim("nbf", mustBe: "a number of seconds since 1970")
        )
    }

    @Test
    func `Issuer and audience are checked when configured`() async throws {
        let verifier = try await verifier {
            $0.own.issuer = "https://id.example"
            $0.own.audience = "sluice"
        }
        func refusal(_ issuer: Any, _ audience: Any) throws -> TokenError? {
            verifier.refusal(try key.token(claims(["iss": issuer, "aud": audience])))
        }
        #expect(try refusal("https://id.example", "sluice") == nil)
        #expect(try refusal("https://id.example", ["other", "sluice"]) == nil)
        #expect(try refusal("https://id.example/", "sluice") == .wrongIssuer)
        #expect(try refusal(NSNull(), "sluice") == .missingClaim("iss"))
        #expect(try refusal(["https://id.example"], "sluice") == .malformedClaim("iss", mustBe: "a text"))
        #expect(try refusal("https://id.example", "other") == .wrongAudience(claim: "aud"))
        #expect(try refusal("https://id.example", [String]()) == .wrongAudience(claim: "aud"))
        #expect(try refusal("https://id.example", NSNull()) == .missingClaim("aud"))
        #expect(try refusal("https://id.example", 5) == .malformedClaim("aud", mustBe: "a text or a list of texts"))
    }

    @Test(arguments: [("é", "e\u{301}"), ("K", "\u{212a}"), ("Å", "\u{212b}")])
    func `Issuer and audience are compared byte by byte`(configured: String, alike: String) async throws {
        let verifier = try await verifier {
            $0.own.issuer = ByteExactString("https://" + configured)
            $0.own.audience = ByteExactString(configured)
        }
        func refusal(_ issuer: String, _ audience: Any) throws -> TokenError? {
            verifier.refusal(try key.token(claims(["iss": "https://" + issuer, "aud": audience])))
        }
        #expect(try refusal(configured, configured) == nil)
        #expect(try refusal(alike, configured) == .wrongIssuer)
        #expect(try refusal(configured, alike) == .wrongAudience(claim: "aud"))
        #expect(try refusal(configured, [alike, "x"]) == .wrongAudience(claim: "aud"))
    }

    @Test
    func `Settings that differ in bytes are different`() {
        func configuration(_ name: String) -> TokenConfiguration {
            TokenConfiguration(secret: Keys.secret, issuer: name, audience: name)
        }
        #expect(configuration("é") != configuration("e\u{301}"))
        var (one, other) = (configuration("x"), configuration("x"))
        one.own.places.user = ClaimPlace(named: "é")
        other.own.places.user = ClaimPlace(named: "e\u{301}")
        #expect(one != other)
        #expect(TokenKeySource(name: "f", text: "é") != TokenKeySource(name: "f", text: "e\u{301}"))
    }

    @Test
    func `Unconfigured issuers and audiences are ignored`() async throws {
        #expect(try await verifier().refusal(key.token(claims(["iss": 5, "aud": ["a", 5]]))) == nil)
    }

    @Test
    func `User and organization UUIDs may be in upper or lower case`() async throws {
        let verifier = try await verifier {
            $0.own.places.userForm = .uuid
            $0.own.places.organizationForm = .uuid
        }
        #expect(verifier.refusal(try key.token(claims(["sub": user.uuidString.lowercased()]))) == nil)
        let uuid = "a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab"
        for name in ["sub", "org"] {
            #expect(verifier.refusal(try key.token(claims([name: NSNull()]))) == .missingClaim(name))
            let values: [Any] = ["", "auth0|1", user.uuidString + " ", "{\(user)}", 7, [user.uuidString]]
            for value in values {
                #expect(verifier.refusal(try key.token(claims([name: value]))) == .malformedClaim(name, mustBe: uuid))
            }
            // Foundation parses +1 as 01
            let signed = "00000000-0000-4000-8000-0000000000+1"
            #expect(verifier.refusal(try key.token(claims([name: signed]))) == .malformedClaim(name, mustBe: uuid))
            let compact = user.uuidString.replacingOccurrences(of: "-", with: "")
            #expect(verifier.refusal(try key.token(claims([name: compact]))) == .malformedClaim(name, mustBe: uuid))
        }
    }

    @Test
    func `The claims' names are settings`() async throws {
        let verifier = try await verifier {
            $0.own.places = IdentityPlaces(
                user: ClaimPlace(named: "https://example.com/user"),
                organization: ClaimPlace(named: "tenant")
            )
        }
        let custom = claims([
            "sub": NSNull(), "org": NSNull(), "https://example.com/user": user.uuidString,
            "tenant": organization.uuidString,
        ])
        #expect(try verifier.verify(key.token(custom), now: now).organization == .id(organization))
        #expect(try verifier.verify(key.token(custom), now: now).user == .id(user))
        #expect(verifier.refusal(try key.token(claims())) == .missingClaim("tenant"))
    }

    @Test
    func `An explanation names the claim and the reason, without its value`() {
        #expect(TokenError.missingClaim("exp").explanation == "Claim `exp` of the token is missing.")
        #expect(TokenError.tooLong.explanation == "The token is longer than 8192 bytes.")
        let sub = TokenError.malformedClaim("https://example.com/user", mustBe: "a UUID").explanation
        #expect(sub == "Claim `https://example.com/user` of the token must be a UUID.")
        for (error, name) in [
            (TokenError.expired, "exp"), (.notYetValid(claim: "nbf"), "nbf"), (.wrongIssuer, "iss"),
            (.wrongAudience(claim: "client_id"), "client_id"),
        ] {
            #expect(error.explanation.contains("claim `\(name)`"))
        }
    }

    /// One parser uses the first of two members, another the last. For one of the two, an attacker who can add a member
    /// would be a different user.
    @Test
    func `A duplicate member makes a token malformed, in the header and in the payload`() async throws {
        let verifier = try await verifier()
        let other = UUID().uuidString
        let good = String(decoding: try json(claims()), as: UTF8.self)
        let header = #"{"alg":"HS256","typ":"JWT"}"#
        func token(_ header: String, _ payload: String) throws -> String {
            let signed = base64URL(Data(header.utf8)) + "." + base64URL(Data(payload.utf8))
            return signed + "." + base64URL(try key.sign(Data(signed.utf8)))
        }
        #expect(verifier.refusal(try token(header, good)) == nil)
        for member in [
            #""sub":"\#(other)""#, #""org":"\#(other)""#, #""exp":9999999999"#, #""s\u0075b":"\#(other)""#,
            #""x":1,"x":1"#, #""x":{"y":1,"y":2}"#,
        ] {
            for payload in ["{" + member + "," + good.dropFirst(), good.dropLast() + "," + member + "}"] {
                #expect(verifier.refusal(try token(header, payload)) == .repeatedMember, "\(payload)")
            }
        }
        for twice in [#"{"alg":"none","alg":"HS256"}"#, #"{"alg":"HS256","kid":"a","kid":"b"}"#] {
            #expect(verifier.refusal(try token(twice, good)) == .repeatedMember)
        }
    }

    @Test
    func `The verifier accepts the issuer's tokens`() async throws {
        var configuration = TokenConfiguration(secret: Keys.secret, issuer: "i \"quoted\"", audience: "a")
        configuration.own.places.organization = .claim(ClaimPlace(named: "tenant"))
        let token = try await TokenIssuer(configuration: configuration)
            .issue(organization: organization, user: user, ttlSeconds: 30, now: now)
        let verifier = try await TokenVerifier(configuration: configuration)
        #expect(
            try verifier.verify(token, now: now)
                == TokenClaims(
                    issuer: "i \"quoted\"",
                    namespace: "i \"quoted\"",
                    organization: .id(organization),
                    user: .id(user),
                    covered: .any,
                    expiresAt: now + 30
                )
        )
        #expect(verifier.refusal(token, now: now + 30) == .expired)
        await #expect(throws: TokenConfigurationError.self) {
            try await TokenIssuer(configuration: TokenConfiguration())
        }
    }
}
