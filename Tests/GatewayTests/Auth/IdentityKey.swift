import Crypto
import Foundation
import JSONText
import SyncModel

/// A key of an external identity provider. It signs by ES256 with swift-crypto, independent of the code under test.
struct IdentityKey: Sendable {
    let id: String?
    private let key = P256.Signing.PrivateKey()

    init(_ id: String?) { self.id = id }

    /// The public key as an element of a JWKS document.
    var jwk: String {
        let raw = key.publicKey.rawRepresentation
        let name = id.map { #""kid":"\#($0)","# } ?? ""
        return #"{\#(name)"kty":"EC","crv":"P-256","use":"sig","x":"\#(Self.base64(raw.prefix(32)))","#
            + #""y":"\#(Self.base64(raw.suffix(32)))"}"#
    }

    var pem: String { key.publicKey.pemRepresentation }

    static func jwks(_ keys: IdentityKey...) -> String {
        #"{"keys":[\#(keys.map(\.jwk).joined(separator: ","))]}"#
    }

    /// Returns a token for a user; without `issuer`, the token has no `iss`.
    func token(organization: UUID, user: UUID, issuer: String? = nil, expires: Int64) throws -> String {
        let header = #"{"alg":"ES256"\#(id.map { #","kid":"\#($0)""# } ?? "")}"#
        let signed = Self.signed(header, organization, user, issuer, expires)
        return signed + "." + Self.base64(try key.signature(for: Data(signed.utf8)).rawRepresentation)
    }

    /// Returns a token with arbitrary claims, given as JSON text.
    ///
    /// - Parameter header: the header as JSON text; nil for a valid header.
    func token(claims: String, header: String? = nil) throws -> String {
        let header = header ?? #"{"alg":"ES256"\#(id.map { #","kid":"\#($0)""# } ?? "")}"#
        let signed = Self.base64(Data(header.utf8)) + "." + Self.base64(Data(claims.utf8))
        return signed + "." + Self.base64(try key.signature(for: Data(signed.utf8)).rawRepresentation)
    }

    /// Returns a token signed with a secret of any bytes.
    static func token(
        secret: some ContiguousBytes & Sequence<UInt8>,
        organization: UUID,
        user: UUID,
        issuer: String? = nil,
        id: String? = nil,
        expires: Int64
    ) -> String {
        let header = #"{"alg":"HS256"\#(id.map { #","kid":"\#($0)""# } ?? "")}"#
        let signed = Self.signed(header, organization, user, issuer, expires)
        let code = HMAC<SHA256>.authenticationCode(for: Data(signed.utf8), using: SymmetricKey(data: secret))
        return signed + "." + base64(Data(code))
    }

    private static func signed(
        _ header: String,
        _ organization: UUID,
        _ user: UUID,
        _ issuer: String?,
        _ expires: Int64
    ) -> String {
        let name = issuer.map { #""iss":"\#($0)","# } ?? ""
        let claims = #"{\#(name)"sub":\#(user.quoted),"org":\#(organization.quoted),"exp":\#(expires)}"#
        return base64(Data(header.utf8)) + "." + base64(Data(claims.utf8))
    }

    private static func base64(_ data: some DataProtocol) -> String {
        Data(data).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
