import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends requests to the gateway.
struct GatewayClient: Sendable {
    let url: URL
    let transport: any Transport
    let tokens: TokenCache
    /// A request fails if it receives nothing for this number of seconds.
    let idleTimeout: TimeInterval
    /// A request fails after this number of seconds in total.
    let totalTimeout: TimeInterval
    /// Throws if a token belongs to a user other than the database's user.
    let check: @Sendable (_ token: String) async throws -> Void

    /// - Throws: `CancellationError`, ``SluiceError/otherAccount``, ``SluiceError/signedOut``. All failures of the
    ///   network, the gateway and the app's token are returned as replies.
    func send(_ request: GatewayRequest) async throws -> Reply {
        var refused: String?
        for _ in 0..<2 {
            let token: String
            do {
                token = try await tokens.token(insteadOf: refused)
            } catch {
                try Task.checkCancellation()
                return .unauthorized(TransientError(text: "the app has no token: \(error)"))
            }
            try await check(token)
            let reply = try await send(request, token: token)
            // a refused token may have expired, so the app's closure is called once for another token
            guard case .unauthorized = reply, refused == nil else { return reply }
            refused = token
        }
        return .unauthorized(TransientError(text: "the gateway does not accept the app's tokens"))
    }

    private func send(_ request: GatewayRequest, token: String) async throws -> Reply {
        let urlRequest = try request.urlRequest(to: url, token: token, timeout: idleTimeout)
        do {
            let (data, response) = try await transport.answer(to: urlRequest, within: totalTimeout)
            guard let response = response as? HTTPURLResponse else { return .again(TransientError(text: "no HTTP")) }
            return Reply.of(
                status: response.statusCode,
                body: data,
                retryAfter: response.value(forHTTPHeaderField: "Retry-After")
            )
        } catch {
            try Task.checkCancellation()
            return .again(TransientError(isOffline: true, text: error.localizedDescription))
        }
    }
}
