import Foundation
import JSONText
import SyncModel
import Testing

@testable import Tokens

/// An issuer's names for users and organizations belong to it, byte for byte.
@Suite("Places of users and organizations")
struct PlaceTests {
    let key = TestKey.hs256(Keys.secret)

    private func verifier(_ places: IdentityPlaces, audience: String? = nil) async throws -> TokenVerifier {
        var configuration = TokenConfiguration(secret: Keys.secret, audience: audience, places: places)
        configuration.cacheCapacity = 0
        return try await TokenVerifier(configuration: configuration)
    }

    private func place(_ text: String) throws -> ClaimPlace { try ClaimPlace(parsing: text) }

    private func verified(_ places: IdentityPlaces, _ changes: [String: Any]) async throws -> TokenClaims {
        try await verifier(places).verify(key.token(claims(changes)), now: now)
    }

    private func refusal(_ places: IdentityPlaces, _ changes: [String: Any]) async throws -> TokenError? {
        try await verifier(places).refusal(key.token(claims(changes)))
    }

    private static let form = "a text of 1 to 255 bytes without control characters"

    @Test
    func `A text that does not begin like a path is a member's name, with any characters`() throws {
        #expect(try place("a.b").query.steps == [.member("a.b")])
        #expect(try place("https://acme.example/org").query.steps == [.member("https://acme.example/org")])
        #expect(try place("$a").query.steps == [.member("$a")])
        #expect(try place("$.a.b").query.steps == [.member("a"), .member("b")])
        #expect(try place("$['a']") == place("a"))
        #expect(
            try place("$['a']").plainName == "a" && place("$.a.b").plainName == nil && place("$[0]").plainName == nil
        )
        for wrong in ["", "$", "$.", "$[", "$..a", "$.a "] {
            #expect(throws: SingularQueryError.self, "\(wrong)") { try place(wrong) }
        }
    }

    @Test
    func `User and organization are found by their paths`() async throws {
        let deep = IdentityPlaces(
            user: try place("$.firebase.identities['user id'][-1]"),
            organization: try place("$['https://acme.example/org']")
        )
        let claims = try await verified(
            deep,
            ["firebase": ["identities": ["user id": ["no", "auth0|1"]]], "https://acme.example/org": "acme"]
        )
        #expect(
            claims.user == .subject(ByteExactString("auth0|1"))
                && claims.organization == .names([ByteExactString("acme")])
        )
        let missing = try await refusal(deep, ["https://acme.example/org": "acme"])
        #expect(missing == .missingClaim("$.firebase.identities['user id'][-1]"))
        #expect(try await refusal(deep, [:]) == .missingClaim("$['https://acme.example/org']"))
    }

    @Test
    func `An explanation shows a claim as configured`() {
        for path in [#"$["a\\b"]['c']"#, "größe"] {
            #expect(TokenError.missingClaim(path).explanation == "Claim `\(path)` of the token is missing.")
        }
    }

    @Test
    func `A UUID is the user's id, any other text is a subject`() async throws {
        let upper = "0192F0C1-2345-7ABC-8DEF-0123456789AB"
        let id = try #require(UUID(uuidString: upper))
        for text in [upper, upper.lowercased()] {
            #expect(try await verified(IdentityPlaces(), ["sub": text]).user == .id(id))
        }
        for text in [
            "auth0|6553da60a54af58e29493993", " x ", "{\(upper)}", upper.replacingOccurrences(of: "-", with: ""),
            "user@a.example",
            "ü", "名前", "😀", "null", "00000000-0000-4000-8000-0000000000+1", "\u{202e}x", "\u{feff}",
        ] {
            #expect(try await verified(IdentityPlaces(), ["sub": text]).user == .subject(ByteExactString(text)))
        }
    }

    @Test
    func `A mapped user is a text exactly as written, even if it looks like a UUID`() async throws {
        var places = IdentityPlaces()
        places.userForm = .mapped
        let (upper, lower) = (user.uuidString, user.uuidString.lowercased())
        #expect(try await verified(places, ["sub": upper]).user == .subject(ByteExactString(upper)))
        #expect(try await verified(places, ["sub": lower]).user == .subject(ByteExactString(lower)))
        #expect(TokenClaims.User.subject(ByteExactString(upper)) != .subject(ByteExactString(lower)))
    }

    @Test
    func `A subject has 1 to 255 bytes without control characters, and is a text`() async throws {
        let longest = String(repeating: "é", count: 127) + "x"
        #expect(try await verified(IdentityPlaces(), ["sub": longest]).user == .subject(ByteExactString(longest)))
        let wrong: [Any] = [
            "", longest + "x", "a\0b", "a\nb", "\u{1f}", "a\u{7f}", "a\u{85}b", "\u{9f}", 7, 7.5, true, [String](),
            ["a"],
            ["a": "b"], NSNull(),
        ]
        for value in wrong {
            let payload = value is NSNull ? #"{"sub":null,"org":"\#(organization)","exp":\#(now + 9)}"# : nil
            let token = try payload.map(signed) ?? key.token(claims(["sub": value]))
            for form in [IdentityPlaces.UserForm.either, .mapped] {
                var places = IdentityPlaces()
                places.userForm = form
                // JSON parsing already refuses a text with U+0000
                let expected: TokenError =
                    value as? String == "a\0b" ? .malformed : .malformedClaim("sub", mustBe: Self.form)
                #expect(try await verifier(places).refusal(token) == expected, "\(value)")
            }
        }
    }

    @Test
    func `Texts that only look alike are two subjects`() throws {
        let (composed, decomposed) = ("\u{e9}", "e\u{301}")
        #expect(ByteExactString(composed) != ByteExactString(decomposed))
        #expect(Set([ByteExactString(composed), ByteExactString(decomposed)]).count == 2)
        #expect(TokenClaims.User.subject(ByteExactString(composed)) != .subject(ByteExactString(decomposed)))
    }

    @Test
    func `The form determines whether an organization is a UUID or a name`() async throws {
        var places = IdentityPlaces()
        let id = organization.uuidString
        #expect(try await verified(places, ["org": id]).organization == .id(organization))
        #expect(try await verified(places, ["org": "org_9Vn"]).organization == .names([ByteExactString("org_9Vn")]))
        places.organizationForm = .external
        #expect(try await verified(places, ["org": id]).organization == .names([ByteExactString(id)]))
        places.organizationForm = .uuid
        #expect(try await verified(places, ["org": id]).organization == .id(organization))
        let uuid = "a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab"
        #expect(try await refusal(places, ["org": "org_9Vn"]) == .malformedClaim("org", mustBe: uuid))
        places.organizationForm = .either
        #expect(try await refusal(places, ["org": "a\tb"]) == .malformedClaim("org", mustBe: Self.form))
    }

    @Test
    func `Organizations are the member names of an object or the texts of a list, and never ids`() async throws {
        var places = IdentityPlaces()
        places.organization = .keys(try place("$.organization"))
        func names(_ value: Any) async throws -> TokenClaims.Organization {
            try await verified(places, ["organization": value]).organization
        }
        #expect(try await names(["acme": [String: Any]()]) == .names([ByteExactString("acme")]))
        #expect(
            try await names(["acme": ["id": "1"], "b": 7] as [String: Any])
                == .names(["acme", "b"].map { ByteExactString($0) })
        )
        #expect(try await names(["x", "y", "x"]) == .names(["x", "y"].map { ByteExactString($0) }))
        let id = organization.uuidString
        #expect(try await names([id: [String: Any]()]) == .names([ByteExactString(id)]))
        let accents = ["\u{e9}", "e\u{301}"]
        #expect(try await names(accents) == .names(accents.map { ByteExactString($0) }))
        let most = (1...100).map { "o\($0)" }
        #expect(try await names(most) == .names(most.map { ByteExactString($0) }))
        for value in [[String: Any](), [String]()] as [Any] {
            #expect(try await refusal(places, ["organization": value]) == .missingClaim("$.organization"))
        }
        for value in [most + ["o101"], ["a", 7], [""], ["": 1], "acme", 7, ["a\n"]] as [Any] {
            guard case .malformedClaim("$.organization", _)? = try await refusal(places, ["organization": value]) else {
                Issue.record("\(value) was taken")
                continue
            }
        }
        #expect(try await refusal(places, [:]) == .missingClaim("$.organization"))
    }

    @Test
    func `A fixed organization overrides the token's`() async throws {
        var places = IdentityPlaces()
        let fixed = UUID()
        places.organization = .fixed(fixed)
        #expect(try await verified(places, ["org": UUID().uuidString]).organization == .id(fixed))
        #expect(try await verified(places, ["org": NSNull()]).organization == .id(fixed))
    }

    @Test
    func `The audience may be in another claim`() async throws {
        var configuration = TokenConfiguration(secret: Keys.secret, audience: "app")
        configuration.own.audienceClaim = ClaimPlace(named: "client_id")
        configuration.cacheCapacity = 0
        let verifier = try await TokenVerifier(configuration: configuration)
        #expect(verifier.refusal(try key.token(claims(["client_id": "app"]))) == nil)
        #expect(verifier.refusal(try key.token(claims(["aud": "app"]))) == .missingClaim("client_id"))
        let other = verifier.refusal(try key.token(claims(["client_id": "other", "aud": "app"])))
        #expect(other == .wrongAudience(claim: "client_id"))
    }

    @Test
    func `Claims contain the issuer's namespace and its permitted organizations`() async throws {
        let covered = TrustedIssuer.Organizations.only([UUID()])
        var issuer = TrustedIssuer(issuer: "https://a.example", organizations: covered, secret: Keys.secret)
        issuer.namespace = "a"
        let other = TrustedIssuer(issuer: "https://b.example", organizations: .any, secret: Keys.secret)
        let verifier = try await TokenVerifier(configuration: TokenConfiguration(otherIssuers: [issuer, other]))
        func verified(_ name: String) throws -> TokenClaims {
            try verifier.verify(key.token(claims(["iss": name, "org": "acme"])), now: now)
        }
        #expect(try verified("https://a.example").namespace == "a")
        #expect(try verified("https://a.example").covered == covered)
        #expect(try verified("https://b.example").namespace == "https://b.example")
    }

    @Test
    func `User and organization cannot be in the same place`() async throws {
        await #expect(throws: TokenConfigurationError.self) {
            try await verifier(IdentityPlaces(user: place("$['sub']"), organization: place("sub")))
        }
    }

    @Test
    func `The verifier finds the issuer's claims at any path`() async throws {
        var configuration = TokenConfiguration(secret: Keys.secret)
        let organizations: [IdentityPlaces.Organization] = [
            .claim(try place("$.o.id")), .keys(try place("$.o.names")), .fixed(organization),
        ]
        for organization in organizations {
            configuration.own.places.organization = organization
            configuration.own.places.user = try place("$.o.user")
            let verifier = try await TokenVerifier(configuration: configuration)
            let token = try await issue(configuration)
            let claims = try verifier.verify(token, now: now)
            #expect(claims.user == .id(user))
            if case .keys = organization {
                #expect(claims.organization == .names([ByteExactString(Self.organizationName)]))
            } else {
                #expect(claims.organization == .id(Tests.organization))
            }
        }
        for (user, organization) in [("$.list[0]", "org"), ("$.exp.user", "org"), ("$.o", "$.o.id")] {
            configuration.own.places = IdentityPlaces(user: try place(user), organization: try place(organization))
            await #expect(throws: TokenConfigurationError.self) { try await issue(configuration) }
        }
    }

    private static let organizationName = organization.uuidString.lowercased()

    private enum Tests {
        static let organization = TokensTests.organization
    }

    private func issue(_ configuration: TokenConfiguration) async throws -> String {
        try await TokenIssuer(configuration: configuration)
            .issue(organization: organization, user: user, ttlSeconds: 30, now: now)
    }

    private func signed(_ payload: String) throws -> String {
        let text = base64URL(Data(#"{"alg":"HS256"}"#.utf8)) + "." + base64URL(Data(payload.utf8))
        return text + "." + base64URL(try key.sign(Data(text.utf8)))
    }
}
