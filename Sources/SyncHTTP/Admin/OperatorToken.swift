import Crypto
import HTTPTypes
import SyncModel

/// The secret that opens `/admin`, kept as its digest.
struct OperatorToken: Sendable {
    private let digest: [UInt8]

    /// Nil if there is no secret, and so no `/admin`.
    init?(_ secret: String?) {
        guard let secret, !secret.isEmpty else { return nil }
        digest = Self.digest(of: secret)
    }

    /// An endpoint that only the operator reaches.
    func operators(only endpoint: @escaping Route.Endpoint) -> Route.Endpoint {
        { exchange in
            let token = try BearerToken.of(exchange.headers)
            guard matches(token) else { throw BearerToken.refusal("invalid_token", "The token is not the operator's.") }
            return try await endpoint(exchange)
        }
    }

    /// Takes the same time whatever the token is: digests are compared, all bytes of them.
    func matches(_ token: some StringProtocol) -> Bool {
        var difference: UInt8 = 0
        for (left, right) in zip(digest, Self.digest(of: token)) { difference |= left ^ right }
        return difference == 0
    }

    private static func digest(of text: some StringProtocol) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }
}
