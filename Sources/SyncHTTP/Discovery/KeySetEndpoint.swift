import HTTPTypes

/// `GET /.well-known/jwks.json`: what upstreams verify the gateway's signatures with. No token is asked for.
struct KeySetEndpoint: Sendable {
    let jwks: [UInt8]

    func read(_ exchange: Exchange) async throws -> Answer {
        var answer = Answer(.ok, json: jwks)
        // a new key is known to upstreams within this time
        answer.headers[.cacheControl] = "public, max-age=300"
        return answer
    }
}
