import Foundation

/// A running OpenID provider: oidc-provider-mock, on Authlib. It accepts every user, signs with its own key and
/// publishes that key.
package final class OpenIDServer: Sendable {
    /// Its name as in `iss`, without a trailing slash.
    package let issuer: String
    private let server: WatchedServer

    /// - Parameter users: each user's claims as a JSON object with a `sub`.
    package init(users: [String]) async throws {
        server = try await WatchedServer.start { _, port in
            let claims = users.flatMap { ["--user-claims", $0] }
            return ["env", "AUTHLIB_INSECURE_TRANSPORT=1", try WatchedServer.python(), "-m", "oidc_provider_mock"]
                + ["--port", "\(port)"] + claims
        }
        issuer = "http://127.0.0.1:\(server.port)"
    }

    package var jwksURL: String { issuer + "/jwks" }
}
