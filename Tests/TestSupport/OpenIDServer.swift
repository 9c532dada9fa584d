import Foundation

/// An OpenID provider that is run: oidc-provider-mock, on Authlib. It lets in whoever asks, signs with a key of its own
/// and publishes that.
package final class OpenIDServer: Sendable {
    /// Its name as in `iss`, without a slash at its end.
    package let issuer: String
    private let server: WatchedServer

    /// - Parameter users: of each its claims as a JSON object with a `sub`.
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
