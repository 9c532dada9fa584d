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
    func `accepts the scheme in any case`(value: String, token: Substring) {
        #expect(BearerToken.parse(value) == token)
    }

    @Test(arguments: [
        "", "Bearer", "Bearer ", "Bearer  ", "Basic abc", "Bearerabc", "abc", "Bearer a b", "Bearer a,b",
        "Bearer é",
        "Bearer \"a\"",
    ]
    )
    func `rejects other authorization headers`(value: String) {
        #expect(BearerToken.parse(value) == nil)
    }

    @Test
    func `a request without a token gets a challenge without an error`() throws {
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of([:]) }
        #expect(refusal.headers[.wwwAuthenticate] == "Bearer")
        #expect(refusal.problem.code == .unauthorized)
    }

    @Test(arguments: ["Bearer", "Bearer ", "bearer   "])
    func `reports an empty token as empty`(value: String) throws {
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of([.authorization: value]) }
        #expect(refusal.problem.detail.contains("is empty"))
        #expect(refusal.problem.code == .unauthorized)
        #expect(refusal.headers[.wwwAuthenticate]?.contains("error=\"invalid_request\"") == true)
    }

    @Test
    func `shows a claim's name unchanged except in the ASCII header`() {
        let description = #"Claim `$["größe"]\n` is missing."#
        let refusal = BearerToken.refusal("invalid_token", description)
        #expect(refusal.problem.detail == description)
        let challenge = #"Bearer error="invalid_token", error_description="Claim `$['gr??e']?n` is missing.""#
        #expect(refusal.headers[.wwwAuthenticate] == challenge)
    }

    @Test
    func `rejects two Authorization fields`() throws {
        var headers = HTTPFields()
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of(headers) }
        #expect(refusal.headers[.wwwAuthenticate]?.contains("error=\"invalid_request\"") == true)
    }
}
