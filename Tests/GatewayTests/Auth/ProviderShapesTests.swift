import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing
import Tokens

@testable import CommandSupport
@testable import Sluice

/// Tokens in the shapes that identity providers document, read with the settings of their recipes.
@Suite(.timeLimit(.minutes(10))) struct ProviderShapesTests {
    /// The expected user and organizations of a recipe's token.
    struct Expected: Sendable {
        let user: TokenClaims.User
        let organizations: [String]
        /// The text of the organization in the payload, and the text of another organization that replaces it.
        let otherOrganization: (String, String)

        init(_ user: TokenClaims.User, _ organizations: [String], _ claim: String, _ other: String) {
            self.user = user
            self.organizations = organizations
            otherOrganization = (claim, other)
        }

        static func subject(
            _ text: String,
            _ organizations: [String],
            _ claim: String,
            _ other: String
        ) -> Expected {
            Expected(.subject(ByteExactString(text)), organizations, claim, other)
        }

        static func id(_ text: String, _ organizations: [String], _ claim: String, _ other: String) -> Expected {
            Expected(.id(UUID(uuidString: text) ?? UUID()), organizations, claim, other)
        }
    }

    static let expected: [String: Expected] = [
        "Auth0": .subject(
            "auth0|6553da60a54af58e29493993",
            ["org_9ybsU1dN2dKfDkBi"],
            #""org_9ybsU1dN2dKfDkBi""#,
            #""org_other""#
        ),
        "Firebase, Identity Platform": .subject(
            "jZ7nSk2lT9hWq0aBcDeFgHiJkLm1",
            ["acme-x7f2q"],
            #""acme-x7f2q""#,
            #""other-x7f2q""#
        ),
        "Amazon Cognito": .id("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", ["acme"], #"["acme"]"#, #"["other"]"#),
        "Keycloak": .id("f3a1c2d4-5b6e-4f70-8a91-b2c3d4e5f607", ["acme", "fjord"], #""acme": {}"#, #""other": {}"#),
        "Supabase": .id(
            "123e4567-e89b-42d3-a456-426614174000",
            ["acme"],
            #""organization": "acme""#,
            #""organization": "other""#
        ),
        "Clerk": .subject(
            "user_2NNEqL2nrIRdJ194ndJqAHwEfxC",
            ["org_2O5Fx9oSBHFPbNqnG3kJ2mXfmPZ"],
            #""org_2O5Fx9oSBHFPbNqnG3kJ2mXfmPZ""#,
            #""org_other""#
        ),
        "Microsoft Entra ID": .id(
            "aaaaaaaa-0000-4111-8222-bbbbbbbbbbbb",
            ["aaaabbbb-0000-4ccc-8111-dddd2222eeee"],
            #""tid": "aaaabbbb-0000-4ccc-8111-dddd2222eeee""#,
            #""tid": "bbbbbbbb-0000-4ccc-8111-dddd2222eeee""#
        ),
        "Okta": .subject("00ub0oNGTSWTBKOLGLNR", ["acme"], #""organization": "acme""#, #""organization": "other""#),
    ]

    static let providers = expected.keys.sorted()

    /// The settings of a recipe, with the keys of a simulated provider.
    private static func configuration(_ recipe: Recipe, _ key: IdentityKey) throws -> TokenConfiguration {
        var configuration = try Settings.load(configFile: nil, environment: recipe.settings).tokenConfiguration()
        #expect(configuration.own.jwksURL?.hasPrefix("https://") == true)
        configuration.own.jwksURL = nil
        configuration.own.keys = [TokenKeySource(name: recipe.provider, text: IdentityKey.jwks(key))]
        return configuration
    }

    @Test func `every recipe of the page is tested`() throws {
        #expect(try Recipe.all().map(\.provider).sorted() == Self.providers)
    }

    @Test(arguments: providers) func `the recipe's settings read a provider's token`(_ provider: String) async throws {
        let recipe = try Recipe.named(provider)
        let expected = try #require(Self.expected[provider])
        let key = IdentityKey("k")
        let configuration = try Self.configuration(recipe, key)
        let verifier = try await TokenVerifier(configuration: configuration)
        let now = Timestamp(microseconds: 1_763_625_600_000_000)
        let token = try recipe.token(key, at: now.seconds)
        let claims = try verifier.verify(token[...], now: now)
        #expect(claims.user == expected.user)
        #expect(claims.organization == .names(expected.organizations.map { ByteExactString($0) }))
        #expect(claims.namespace.string == recipe.settings["SLUICE_JWT_ISSUER"])
        // the token is refused with another issuer, for another audience, and without a user
        let issuer = try #require(recipe.settings["SLUICE_JWT_ISSUER"])
        let changes: [(String, String)] =
            [("\"iss\": \"\(issuer)\"", "\"iss\": \"\(issuer)x\""), ("\"iss\"", "\"ass\"")]
            + (recipe.settings["SLUICE_JWT_AUDIENCE"].map { [("\"\($0)\"", "\"\($0)x\"")] } ?? [])
            + [("\"\(recipe.settings["SLUICE_JWT_USER_CLAIM"] ?? "sub")\":", "\"nobody\":")]
        for (text, other) in changes {
            #expect(recipe.payload.contains(text), "\(text)")
            let wrong = try recipe.token(key, at: now.seconds) { $0.replacing(text, with: other) }
            #expect(throws: TokenError.self, "\(text)") { try verifier.verify(wrong[...], now: now) }
        }
        #expect(throws: TokenError.expired) {
            try verifier.verify(token[...], now: now.adding(seconds: 300))
        }
    }

    @Test(arguments: providers) func `a gateway accepts the provider's tokens`(_ provider: String) async throws {
        let recipe = try Recipe.named(provider)
        let expected = try #require(Self.expected[provider])
        let key = IdentityKey("k")
        let gateway = try await LiveGateway.start(tokens: Self.configuration(recipe, key))
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        let issuer = try #require(recipe.settings["SLUICE_JWT_ISSUER"])
        let name = try #require(expected.organizations.first)
        let chosen = expected.organizations.count > 1 ? [("X-Sluice-Organization", name)] : []
        let token = try recipe.token(key, at: gateway.clock.now.seconds)
        func get(_ token: String) async throws -> Reply {
            try await send(.GET, gateway.address + "/v1/mutations", token: token, headers: chosen)
        }
        expectProblem(try await get(token), .organizationUnknown, errors: [])
        try await gateway.operate(
            "",
            of: organization,
            #"{"external_ids":[{"issuer":"\#(issuer)","external_id":"\#(name)"}]}"#
        )
        #expect(try await get(token).status == 200)
        let (claim, other) = expected.otherOrganization
        #expect(recipe.payload.contains(claim))
        let strange = try recipe.token(key, at: gateway.clock.now.seconds) { $0.replacing(claim, with: other) }
        expectProblem(try await get(strange), .organizationUnknown, errors: [])
        let users = try await send(
            .GET,
            gateway.operations + "/admin/organizations/\(organization.lowercased)/users",
            token: LiveGateway.operatorToken
        )
        switch expected.user {
        case .id: #expect(users.json?["users"]?.text == "[]")
        case .subject(let text):
            #expect(users.json?.value(at: "/users/0/subjects/0/subject")?.string == text.string)
            #expect(users.json?.value(at: "/users/0/subjects/0/issuer")?.string == issuer)
        }
    }

    @Test(arguments: providers) func `warns only about an unsuitable user claim`(_ provider: String) throws {
        let recipe = try Recipe.named(provider)
        let payload = try JSONTree(parsing: Array(recipe.payload.utf8)).root
        func cautions(_ settings: [String: String], _ payload: JSONValue? = nil) throws -> [String] {
            let configuration = try Settings.load(configFile: nil, environment: settings).tokenConfiguration()
            return ProviderCautions.of(IssuerSettings(configuration.own, configuration), payload: payload)
                .compactMap(\.advice)
        }
        #expect(try cautions(recipe.settings, payload) == [])
        var plain = recipe.settings
        plain["SLUICE_JWT_USER_CLAIM"] = nil
        let wanted = recipe.settings["SLUICE_JWT_USER_CLAIM"]
        let advice = try cautions(plain)
        #expect(advice.count == (wanted == nil ? 0 : 1))
        if let wanted { #expect(advice[0].hasPrefix("Set SLUICE_JWT_USER_CLAIM to \(wanted) before ")) }
        // under the customer's own domain, the token identifies the provider
        plain["SLUICE_JWT_ISSUER"] = "https://login.acme.example"
        #expect(try cautions(plain) == [])
        #expect(try cautions(plain, payload).count == advice.count)
    }

    @Test func `warns about two issuers that can sign in as each other's users`() {
        let (one, other) = (UUID(), UUID())
        func warnings(_ change: (inout TrustedIssuer, inout TrustedIssuer) -> Void) -> Int {
            var left = TrustedIssuer(issuer: "https://a.example", organizations: .only([one]))
            var right = TrustedIssuer(issuer: "https://b.example", organizations: .only([one, other]))
            change(&left, &right)
            return ProviderCautions.sharedOrganizations(TokenConfiguration(otherIssuers: [left, right])).count
        }
        #expect(warnings { _, _ in } == 1)
        #expect(warnings { left, _ in left.places.userForm = .mapped } == 0)
        #expect(warnings { _, right in right.places.userForm = .uuid } == 1)
        #expect(warnings { _, right in right.organizations = .only([other]) } == 0)
        #expect(warnings { left, right in (left.organizations, right.organizations) = (.any, .only([other])) } == 1)
    }
}
