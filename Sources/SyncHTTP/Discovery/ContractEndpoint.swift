import CContract
import Crypto
import HTTPTypes
import NIOCore

/// `GET /openapi.json`: the API's description, for client generators. It requires no token.
struct ContractEndpoint: Sendable {
    private let document: ByteBuffer
    private let tag: EntityTag

    init() {
        let bytes = Array(UnsafeBufferPointer(start: contract_bytes(), count: contract_length()))
        document = ByteBuffer(bytes: bytes)
        tag = EntityTag(of: bytes)
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        var answer = Answer(.ok, sharedJSON: document)
        if tag.isAmong(exchange.headers[.ifNoneMatch]) { answer = Answer(.notModified) }
        answer.headers[.eTag] = tag.text
        answer.headers[.cacheControl] = "public, max-age=300"
        return answer
    }
}

/// `GET /.well-known/jwks.json`: the keys with which upstreams verify the gateway's signatures. It requires no token.
struct KeySetEndpoint: Sendable {
    let jwks: [UInt8]

    func read(_ exchange: Exchange) async throws -> Answer {
        var answer = Answer(.ok, json: jwks)
        // upstreams that cache the keys get a new key within five minutes
        answer.headers[.cacheControl] = "public, max-age=300"
        return answer
    }
}
