import HTTPTypes
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Bearer tokens")
struct BearerTokenTests {
    @Test(
        "The scheme is in any case",
        arguments: [
            ("Bearer abc.def-_~+/=", "abc.def-_~+/="), ("bearer x", "x"), ("BEARER   x", "x"),
        ]
    )
    func scheme(value: String, token: Substring) {
        #expect(BearerToken.parse(value) == token)
    }

    @Test(
        "Anything else is no token",
        arguments: [
            "", "Bearer", "Bearer ", "Bearer  ", "Basic abc", "Bearerabc", "abc", "Bearer a b", "Bearer a,b",
            "Bearer é",
            "Bearer \"a\"",
        ]
    )
    func noToken(value: String) {
        #expect(BearerToken.parse(value) == nil)
    }

    @Test("A request without a token gets a bare challenge")
    func missing() throws {
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of([:]) }
        #expect(refusal.headers[.wwwAuthenticate] == "Bearer")
        #expect(refusal.problem.code == .unauthorized)
    }

    @Test("Two Authorization fields are refused")
    func repeated() throws {
        var headers = HTTPFields()
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        headers.append(HTTPField(name: .authorization, value: "Bearer a"))
        let refusal = try #require(throws: Refusal.self) { _ = try BearerToken.of(headers) }
        #expect(refusal.headers[.wwwAuthenticate]?.contains("error=\"invalid_request\"") == true)
    }
}
