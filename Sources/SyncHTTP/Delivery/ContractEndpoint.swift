import CContract
import Crypto
import HTTPTypes

/// `GET /openapi.json`: what this gateway can do, for programs that write clients. No token is asked for.
struct ContractEndpoint: Sendable {
    private let document: [UInt8]
    private let tag: EntityTag

    init() {
        document = Array(UnsafeBufferPointer(start: contract_bytes(), count: contract_length()))
        tag = EntityTag(of: document)
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        var answer = Answer(.ok, json: document)
        if tag.isAmong(exchange.headers[.ifNoneMatch]) { answer = Answer(.notModified) }
        answer.headers[.eTag] = tag.text
        answer.headers[.cacheControl] = "public, max-age=300"
        return answer
    }
}
