import Foundation
import Testing

@testable import Tokens

@Suite("The text of a token")
struct TokenTextTests {
    let key = TestKey.hs256(Keys.secret)

    private func verifier() async throws -> TokenVerifier {
        try await TokenVerifier(configuration: TokenConfiguration(secret: Keys.secret))
    }

    @Test
    func `Texts that are not tokens are malformed`() async throws {
        let verifier = try await verifier()
        let good = try key.token(claims())
        let deep = base64URL(Data((#"{"alg":"# + String(repeating: "[", count: 4_000)).utf8))
        let texts = [
            "x", "..", "...", good + ".", "." + good, good + "=", " " + good, good + "\n", good + "é",
            good.replacingOccurrences(of: ".", with: "|"), "bnVsbA.e30.", "W10.e30.", deep + ".e30.",
        ]
        for text in texts { #expect(verifier.refusal(text) == .malformed, "\(text)") }
        #expect(verifier.refusal("e30.e30.e30") == .malformedHeader("alg", mustBe: "a text"))
        #expect(verifier.refusal("") == .missing)
    }

    @Test
    func `A token may have up to 8 KiB`() async throws {
        let verifier = try await verifier()
        let base = try key.token(claims(["x": ""])).utf8.count
        let fits = try key.token(claims(["x": String(repeating: "x", count: (8_192 - base) / 4 * 3 - 3)]))
        #expect(fits.utf8.count <= 8_192 && fits.utf8.count > 8_180)
        #expect(verifier.refusal(fits) == nil)
        #expect(verifier.cached(fits, now: now) != nil)
        let long = try key.token(claims(["x": String(repeating: "x", count: 6_200)]))
        #expect(verifier.refusal(long) == .tooLong)
        #expect(verifier.cached(long, now: now) == nil)
    }

    @Test
    func `A changed payload, header or signature is refused`() async throws {
        let verifier = try await verifier()
        let parts = try key.token(claims()).split(separator: ".").map(String.init)
        let payload = base64URL(try json(claims(["sub": UUID().uuidString])))
        #expect(verifier.refusal([parts[0], payload, parts[2]].joined(separator: ".")) == .badSignature)
        let header = base64URL(try json(["alg": "HS256", "typ": "at+jwt"]))
        #expect(verifier.refusal([header, parts[1], parts[2]].joined(separator: ".")) == .badSignature)
        #expect(verifier.refusal(parts[0] + "." + parts[1] + ".") == .badSignature)
        #expect(verifier.refusal(parts[0] + "." + parts[1] + "." + parts[2].dropLast(3)) == .badSignature)
    }

    @Test
    func `No single bit of a token can change`() async throws {
        let verifier = try await verifier()
        let bytes = Array(try key.token(claims()).utf8)
        for index in bytes.indices {
            for bit in 0..<7 {
                var changed = bytes
                changed[index] ^= 1 << bit
                #expect(verifier.refusal(String(decoding: changed, as: UTF8.self)) != nil)
            }
        }
    }

    @Test
    func `Critical extensions are refused, because the gateway supports no extension`() async throws {
        let token = try key.token(claims(), header: ["crit": ["b64"], "b64": false])
        let refusal = try await verifier().refusal(token)
        #expect(refusal == .malformedHeader("crit", mustBe: "absent: extensions are not supported"))
    }

    @Test
    func `A signed payload that is no JSON object is malformed`() async throws {
        let verifier = try await verifier()
        let header = base64URL(try json(["alg": "HS256"]))
        for text in ["", "[]", "null", "{", "\"x\""] {
            let signed = header + "." + base64URL(Data(text.utf8))
            let token = signed + "." + base64URL(try key.sign(Data(signed.utf8)))
            #expect(verifier.refusal(token) == .malformed)
        }
    }

    @Test
    func `base64url decodes exactly what it encodes`() {
        for length in 0..<70 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255) }
            let text = Base64URL.encode(bytes)
            #expect(text == base64URL(Data(bytes)))
            #expect(Base64URL.decode(Array(text.utf8)[...]) == bytes)
        }
        for text in ["A", "AB", "AAB", "AA=", "AA==", "A+A_", "A/AA", "AA A", "AAAAA"] {
            #expect(Base64URL.decode(Array(text.utf8)[...]) == nil, "\(text)")
        }
    }
}
