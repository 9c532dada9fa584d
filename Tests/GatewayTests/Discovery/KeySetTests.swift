import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import Testing

/// `/.well-known/jwks.json`.
@Suite struct KeySetTests {
    @Test func `the public key is available without a token`() async throws {
        let jwks = #"{"keys":[{"kty":"OKP","kid":"1"}]}"#
        let gateway = try await LiveGateway.start { $0.jwks = Array(jwks.utf8) }
        let reply = try await send(.GET, gateway.address + "/.well-known/jwks.json", headers: [("Accept", "*/*")])
        #expect(reply.status == 200)
        #expect(reply.header("content-type") == ["application/json"])
        #expect(reply.header("cache-control") == ["public, max-age=300"])
        #expect(reply.json?["keys"]?.elements?.count == 1)
    }

    @Test func `without a key the set is empty`() async throws {
        let gateway = try await LiveGateway.start()
        let reply = try await send(.GET, gateway.address + "/.well-known/jwks.json")
        #expect(reply.status == 200)
        #expect(reply.json?["keys"]?.elements?.count == 0)
        #expect(try await send(.GET, gateway.operations + "/.well-known/jwks.json").status == 404)
    }
}
