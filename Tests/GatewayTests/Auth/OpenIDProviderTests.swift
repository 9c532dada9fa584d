import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// The gateway fetches the keys of a running OpenID provider, at which a user logs in.
@Suite(.timeLimit(.minutes(10))) struct OpenIDProviderTests {
    private static let client = "sluice-app"

    /// Logs a user in by the authorization code flow (RFC 6749, 4.1) and returns the ID token.
    private static func token(of user: String, from provider: OpenIDServer) async throws -> String {
        let app = try await KeyProvider(.status(200))
        let back = app.url.replacing(":", with: "%3A").replacing("/", with: "%2F")
        let query = "response_type=code&client_id=\(client)&redirect_uri=\(back)&scope=openid&state=s"
        // the response redirects the browser to the app, with a code
        _ = try await form("\(provider.issuer)/oauth2/authorize?\(query)", ["sub": user])
        let visit = try #require(app.requests.last?.uri)
        let code = try #require(URLComponents(string: visit)?.queryItems?.first { $0.name == "code" }?.value)
        let answer = try await form(
            provider.issuer + "/oauth2/token",
            [
                "grant_type": "authorization_code", "code": code, "redirect_uri": app.url, "client_id": client,
                "client_secret": "any",
            ]
        )
        return try #require(answer.json?["id_token"]?.string, "\(answer.text)")
    }

    private static func form(_ url: String, _ values: [String: String]) async throws -> Reply {
        var components = URLComponents()
        components.queryItems = values.map { URLQueryItem(name: $0.key, value: $0.value) }
        let body = (components.percentEncodedQuery ?? "").replacing("+", with: "%2B")
        let headers = [("Content-Type", "application/x-www-form-urlencoded")]
        return try await send(.POST, url, headers: headers, body: Array(body.utf8))
    }

    @Test func `serves a user who logs in with a provider, using its published keys`() async throws {
        let provider = try await OpenIDServer(users: [
            #"{"sub":"ada|ø 1","organization":{"acme":{}}}"#, #"{"sub":"bob","organization":{"fjord":{}}}"#,
        ])
        let database = try await LiveGateway.migratedDatabase()
        let settings = [
            "SLUICE_JWT_JWKS_URL": provider.jwksURL, "SLUICE_JWT_ISSUER": provider.issuer,
            "SLUICE_JWT_AUDIENCE": Self.client, "SLUICE_JWT_ORGANIZATION_KEYS": "organization",
        ]
        let gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        try await gateway.operate(
            "",
            of: organization,
            #"{"external_ids":[{"issuer":"\#(provider.issuer)","external_id":"acme"}]}"#
        )
        let ada = try await Self.token(of: "ada|ø 1", from: provider)
        let again = try await Self.token(of: "ada|ø 1", from: provider)
        let bob = try await Self.token(of: "bob", from: provider)
        // 503 until the keys are fetched
        try await waitUntil("the provider's keys are fetched") {
            try await GatewayProcess.get(gateway.address + "/v1/changes", token: ada).status == 200
        }
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: again).status == 200)
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: bob).status == 403)
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: ada + "x").status == 401)

        var environment = settings
        environment["SLUICE_DATABASE_URL"] = database.uri
        let explained = try await Program.run(["token", "explain", ada], environment: environment)
        #expect(explained.status == 0, "\(explained.output)\(explained.complaint)")
        #expect(explained.output.contains("published by the issuer; the signature is valid"), "\(explained.output)")
        #expect(explained.output.contains("subject ada|ø 1 is user "), "\(explained.output)")
        #expect(explained.output.contains("RS256"), "\(explained.output)")
        let listed = try await Program.run(
            ["users", "list", "--organization", organization.uuidString, "--subject", "ada|ø 1"],
            environment: environment
        )
        #expect(listed.output.contains("ada|ø 1 of \(provider.issuer)"), "\(listed)")
        #expect(try await gateway.terminate() == 0)
    }
}
