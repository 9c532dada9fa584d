import HTTPTypes
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Bearer tokens")
struct BearerTokenTests {
    @Test(arguments: [
        ("Bearer abc.def-_~+/=", "abc.def-_~+/="), ("bearer x", "x"), ("BEARER   x", "x"),
    ]
    )
    func `The scheme is in any case`(value: String, token: Substring) {
        #expect(BearerToken.parse(value) == token)
    }

    @Test(arguments: [
        "", "Bearer", "Bearer ", "Bearer  ", "Basic abc", "Bearerabc", "abc", "Bearer a b", "Bearer a,b",
        "Bearer é",
        "Bearer \"a\"",
    ]
    )
    func `Anything else is no token`(value: String) {
        #expect(BearerToken.parse(value) == nil)
    }

    @Test
    func `A request without a token gets a bare challenge`() throws {
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of([:]) }
        #expect(refusal.headers[.wwwAuthenticate] == "Bearer")
        #expect(refusal.problem.code == .unauthorized)
    }

    @Test(arguments: ["Bearer", "Bearer ", "bearer   "])
    func `An empty token is called empty`(value: String) throws {
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of([.authorization: value]) }
        #expect(refusal.problem.detail.contains("is empty"))
        #expect(refusal.problem.code == .unauthorized)
        #expect(refusal.headers[.wwwAuthenticate]?.contains("error=\"invalid_request\"") == true)
    }

    @Test
    func `A claim's name is shown as it is, but for the header, which has ASCII alone`() {
        let description = #"Claim `$["größe"]\n` is missing."#
        let refusal = BearerToken.refusal("invalid_token", description)
        #expect(refusal.problem.detail == description)
        let challenge = #"Bearer error="invalid_token", error_description="Claim `$['gr??e']?n` is missing.""#
        #expect(refusal.headers[.wwwAuthenticate] == challenge)
    }

    @Test
    func `Two Authorization fields are refused`() throws {
        var headers = HTTPFields()
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of(headers) }
        #expect(refusal.headers[.wwwAuthenticate]?.contains("error=\"invalid_request\"") == true)
    }
}
