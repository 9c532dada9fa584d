import Crypto
import Foundation
import SyncModel
import Testing

@testable import Tokens

/// Two issuers with two organizations. No combination of the parts of one issuer with those of the other is accepted.
@Suite("Several issuers")
struct IssuerTests {
    static let (north, south) = ("https://north.example", "https://south.example")
    static let (tenantN, tenantS) = (UUID(), UUID())
    let northKey = P256.Signing.PrivateKey()
    let southKey = P256.Signing.PrivateKey()
    let southSecret = Array("the secret of the south, of some length".utf8)

    private func issuer(_ name: String?, _ organizations: TrustedIssuer.Organizations) -> TrustedIssuer {
        TrustedIssuer(issuer: name, organizations: organizations)
    }

    private func verifier(
        _ change: (inout TrustedIssuer, inout TrustedIssuer, inout TokenConfiguration) -> Void = { _, _, _ in }
    ) async throws -> TokenVerifier {
        var north = issuer(Self.north, .only([Self.tenantN]))
        north.keys = [try Keys.jwks(Keys.jwk(northKey.publicKey, id: "k"))]
        var south = issuer(Self.south, .only([Self.tenantS]))
        south.keys = [try Keys.jwks(Keys.jwk(southKey.publicKey, id: "k"))]
        var configuration = TokenConfiguration()
        change(&north, &south, &configuration)
        configuration.otherIssuers = [north, south]
        return try await TokenVerifier(configuration: configuration)
    }

    private func token(
        _ key: TestKey,
        iss: Any,
        org: UUID,
        header: [String: Any] = ["kid": "k"],
        _ changes: [String: Any] = [:]
    ) throws -> String {
        try key.token(claims(["iss": iss, "org": org.uuidString].merging(changes) { $1 }), header: header)
    }

    @Test
    func `Key, name and organization must all belong to one issuer`() async throws {
        let verifier = try await verifier()
        for (key, keyOf) in [(northKey, Self.north), (southKey, Self.south)] {
            for iss in [Self.north, Self.south] {
                for (org, orgOf) in [(Self.tenantN, Self.north), (Self.tenantS, Self.south), (UUID(), "nobody")] {
                    for header in [["kid": "k"], [:]] {
                        let token = try token(.es256(key), iss: iss, org: org, header: header)
                        let expected: TokenError? =
                            keyOf != iss ? .badSignature : orgOf != iss ? .organizationNotCovered : nil
                        // twice, so that the cache is tested too
                        for _ in 0..<2 { #expect(verifier.refusal(token) == expected, "\(keyOf) \(iss) \(orgOf)") }
                    }
                }
            }
        }
        #expect(verifier.cachedTokens == 4)
    }

    @Test
    func `A token without the name of an issuer, or with an unknown name, is refused`() async throws {
        let verifier = try await verifier()
        #expect(verifier.refusal(try token(.es256(northKey), iss: NSNull(), org: Self.tenantN)) == .missingClaim("iss"))
        for iss in ["https://north.example/", "HTTPS://NORTH.EXAMPLE", "", "https://west.example"] {
            #expect(verifier.refusal(try token(.es256(northKey), iss: iss, org: Self.tenantN)) == .wrongIssuer)
        }
        for iss in [1, [Self.north], ["a": Self.north], true] as [Any] {
            let refusal = verifier.refusal(try token(.es256(northKey), iss: iss, org: Self.tenantN))
            #expect(refusal == .malformedClaim("iss", mustBe: "a text"))
        }
    }

    @Test
    func `Of two issuer names in a token, the same one determines the key and the organizations`() async throws {
        let verifier = try await verifier()
        let exp = now + 60
        for (first, second) in [(Self.north, Self.south), (Self.south, Self.north)] {
            for (key, tenant, other) in [
                (northKey, Self.tenantN, Self.tenantS), (southKey, Self.tenantS, Self.tenantN),
            ] {
                let header = base64URL(Data(#"{"alg":"ES256","kid":"k"}"#.utf8))
                let payload = base64URL(
                    Data(
                        """
                        {"iss":"\(first)","iss":"\(second)","org":"\(other.uuidString)","sub":"\(user.uuidString)",\
                        "exp":\(exp)}
                        """.utf8
                    )
                )
                let signed = header + "." + payload
                let signature = base64URL(try TestKey.es256(key).sign(Data(signed.utf8)))
                #expect(verifier.refusal(signed + "." + signature) != nil, "a key of \(tenant) opened \(other)")
            }
        }
    }

    @Test
    func `The secret of one issuer is not a key of another, and a public key is not a secret`() async throws {
        let verifier = try await verifier { _, south, _ in
            south.keys = []
            south.secret = southSecret
        }
        let south = TestKey.hs256(southSecret)
        #expect(verifier.refusal(try token(south, iss: Self.south, org: Self.tenantS)) == nil)
        #expect(verifier.refusal(try token(south, iss: Self.south, org: Self.tenantN)) == .organizationNotCovered)
        for org in [Self.tenantN, Self.tenantS] {
            #expect(verifier.refusal(try token(south, iss: Self.north, org: org)) == .algorithmNotAllowed)
            #expect(verifier.refusal(try token(.es256(northKey), iss: Self.south, org: org)) == .algorithmNotAllowed)
            let unnamed = try token(.es256(northKey), iss: Self.south, org: org, header: [:])
            #expect(verifier.refusal(unnamed) == .algorithmNotAllowed)
            let publicKey = northKey.publicKey
            for bytes in [Array(publicKey.pemRepresentation.utf8), Array(publicKey.x963Representation)] {
                let forged = TestKey.hs256(bytes)
                #expect(verifier.refusal(try token(forged, iss: Self.north, org: org)) == .algorithmNotAllowed)
                #expect(verifier.refusal(try token(forged, iss: Self.south, org: org)) == .badSignature)
            }
            let unsigned = TestKey(algorithm: "none") { _ in Data() }
            #expect(verifier.refusal(try token(unsigned, iss: Self.north, org: org)) == .algorithmNotAllowed)
            let renamed = ["alg": "HS256", "kid": "k"]
            #expect(
                verifier.refusal(try token(.es256(northKey), iss: Self.south, org: org, header: renamed))
                    == .badSignature
            )
        }
    }

    @Test
    func `Issuer names that only look alike have separate keys`() async throws {
        let (composed, decomposed) = ("https://caf\u{e9}.example", "https://cafe\u{301}.example")
        let verifier = try await verifier { north, south, _ in
            north.issuer = ByteExactString(composed)
            south.issuer = ByteExactString(decomposed)
        }
        let right = try token(.es256(northKey), iss: composed, org: Self.tenantN)
        #expect(verifier.refusal(right) == nil)
        #expect(verifier.refusal(try token(.es256(southKey), iss: decomposed, org: Self.tenantS)) == nil)
        #expect(verifier.refusal(try token(.es256(northKey), iss: decomposed, org: Self.tenantN)) == .badSignature)
        let other = P256.Signing.PrivateKey()
        let keys = try [
            Keys.jwks(Keys.jwk(northKey.publicKey, id: "\u{e9}")), Keys.jwks(Keys.jwk(other.publicKey, id: "e\u{301}")),
        ]
        let named = try await self.verifier { north, _, _ in north.keys = keys }
        func refusal(_ key: P256.Signing.PrivateKey, _ id: String) throws -> TokenError? {
            named.refusal(
                try token(.es256(key), iss: Self.north, org: Self.tenantN, header: ["alg": "ES256", "kid": id])
            )
        }
        #expect(try refusal(northKey, "\u{e9}") == nil && refusal(other, "e\u{301}") == nil)
        #expect(try refusal(northKey, "e\u{301}") == .badSignature)
    }

    @Test
    func `The issuer without a name accepts exactly the tokens that name no other`() async throws {
        let own = P256.Signing.PrivateKey()
        let source = try Keys.jwks(Keys.jwk(own.publicKey, id: "k"))
        let verifier = try await verifier { _, _, configuration in configuration.own.keys = [source] }
        for org in [Self.tenantN, Self.tenantS, UUID()] {
            for iss in [NSNull(), "https://west.example"] as [Any] {
                #expect(verifier.refusal(try token(.es256(own), iss: iss, org: org)) == nil)
                #expect(verifier.refusal(try token(.es256(northKey), iss: iss, org: org)) == .badSignature)
            }
            #expect(verifier.refusal(try token(.es256(own), iss: Self.north, org: org)) == .badSignature)
        }
        let named = try await self.verifier { _, _, configuration in
            configuration.own.keys = [source]
            configuration.own.issuer = "https://own.example"
        }
        #expect(named.refusal(try token(.es256(own), iss: "https://own.example", org: UUID())) == nil)
        #expect(named.refusal(try token(.es256(own), iss: "https://west.example", org: UUID())) == .wrongIssuer)
        #expect(named.refusal(try token(.es256(own), iss: NSNull(), org: UUID())) == .missingClaim("iss"))
    }

    @Test
    func `Audience and names of claims are separate for each issuer`() async throws {
        let verifier = try await verifier { north, south, _ in
            north.audience = "n"
            south.places = IdentityPlaces(user: ClaimPlace(named: "uid"), organization: ClaimPlace(named: "tenant"))
        }
        let right = try token(.es256(northKey), iss: Self.north, org: Self.tenantN, ["aud": "n"])
        #expect(verifier.refusal(right) == nil)
        #expect(
            verifier.refusal(try token(.es256(northKey), iss: Self.north, org: Self.tenantN)) == .missingClaim("aud")
        )
        let south = ["uid": user.uuidString, "tenant": Self.tenantS.uuidString]
        // the other issuer's claim for organizations has no meaning here
        #expect(verifier.refusal(try token(.es256(southKey), iss: Self.south, org: Self.tenantN, south)) == nil)
        #expect(
            verifier.refusal(try token(.es256(southKey), iss: Self.south, org: Self.tenantS)) == .missingClaim("tenant")
        )
    }

    @Test
    func `Issuers with the same name, or without keys, are refused`() async throws {
        await #expect(throws: TokenConfigurationError.self) {
            try await verifier { north, south, _ in south.issuer = north.issuer }
        }
        await #expect(throws: TokenConfigurationError.self) { try await verifier { north, _, _ in north.keys = [] } }
        await #expect(throws: TokenConfigurationError.self) {
            try await verifier { north, _, _ in
                north.keys = []
                north.jwksURL = "ftp://north.example/keys"
            }
        }
        await #expect(throws: TokenConfigurationError.self) {
            try await TokenVerifier(configuration: TokenConfiguration())
        }
    }

    @Test
    func `A printed configuration contains no secret`() {
        let issuer = TrustedIssuer(issuer: "i", organizations: .any, secret: southSecret)
        let configuration = TokenConfiguration(secret: southSecret, otherIssuers: [issuer])
        for text in ["\(issuer)", String(reflecting: issuer), "\(configuration)", String(reflecting: configuration)] {
            #expect(!text.contains("\(southSecret[0]), \(southSecret[1])"), "\(text)")
        }
    }

    @Test
    func `A revoked permission of an issuer applies immediately, also to cached tokens`() async throws {
        let verifier = try await verifier()
        let token = try token(.es256(northKey), iss: Self.north, org: Self.tenantN)
        #expect(verifier.refusal(token) == nil)
        var changed = verifier.configuration
        changed.otherIssuers[0].organizations = .only([Self.tenantS])
        try await verifier.replace(changed)
        #expect(verifier.refusal(token) == .organizationNotCovered)
        changed.otherIssuers.removeFirst()
        changed.otherIssuers.append(TrustedIssuer(issuer: "x", organizations: .any, secret: southSecret))
        try await verifier.replace(changed)
        #expect(verifier.refusal(token) == .wrongIssuer)
    }
}
