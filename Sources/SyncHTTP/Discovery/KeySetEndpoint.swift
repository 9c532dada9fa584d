import HTTPTypes

/// `GET /.well-known/jwks.json`: the keys by which upstreams verify the gateway's signatures. Needs no token.
struct KeySetEndpoint: Sendable {
    let jwks: [UInt8]

    func read(_ exchange: Exchange) async throws -> Answer {
        var answer = Answer(.ok, json: jwks)
        // upstreams learn of a new key within this time
        answer.headers[.cacheControl] = "public, max-age=300"
        return answer
    }
}
