package import FoundationEssentials
import JSONText
package import SyncModel

/// A payload's claims.
///
/// Settings determine which claims contain the user and the organization. Therefore these claims are read by their
/// ``ClaimPlace``.
struct TokenPayload {
    let claims: JSONValue

    init(_ json: [UInt8]) throws(TokenError) {
        claims = try TokenObject.parsing(json)
    }

    private func claim(_ name: StaticString) -> JSONValue? { claims[name] }

    /// The value of a claim in seconds since 1970, rounded down. RFC 7519 allows fractions.
    func seconds(_ name: StaticString) throws(TokenError) -> Int64? {
        guard let value = claim(name) else { return nil }
        // Beyond this limit, seconds are not exact, and sums could overflow.
        guard value.kind == .number, let seconds = Double(String(decoding: value.raw, as: UTF8.self)),
            seconds.magnitude < 9_007_199_254_740_992
        else { throw .malformedClaim("\(name)", mustBe: "a number of seconds since 1970") }
        return Int64(seconds.rounded(.down))
    }

    func text(_ name: StaticString) throws(TokenError) -> String? {
        guard let value = claim(name) else { return nil }
        guard let text = value.string else { throw .malformedClaim("\(name)", mustBe: "a text") }
        return text
    }

    /// Returns the texts of a claim that is a text or a list of texts; nil if the claim is missing.
    func texts(_ place: ClaimPlace) throws(TokenError) -> [String]? {
        guard let value = claims.value(at: place.query) else { return nil }
        if let text = value.string { return [text] }
        let texts = value.elements.map { $0.map(\.string) } ?? [nil]
        guard texts.allSatisfy({ $0 != nil }) else {
            throw .malformedClaim(place.description, mustBe: "a text or a list of texts")
        }
        return texts.compactMap { $0 }
    }
}

extension TokenPayload {
    private static let nameForm = "a text of 1 to \(ExternalName.maximumBytes) bytes without control characters"
    private static let uuidForm = "a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab"
    private static let keysForm =
        "an object, or a list of texts, with at most \(IdentityPlaces.maximumNames) names, each "

    /// Reads the user whom the token identifies.
    func user(_ place: ClaimPlace, _ form: IdentityPlaces.UserForm) throws(TokenError) -> TokenClaims.User {
        guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
        if form != .mapped, let id = value.uuid { return .id(id) }
        if form == .uuid { throw .malformedClaim(place.description, mustBe: Self.uuidForm) }
        return .subject(try name(value, place))
    }

    /// Reads the organization for which the bearer acts.
    func organization(
        _ organization: IdentityPlaces.Organization,
        _ form: IdentityPlaces.OrganizationForm
    ) throws(TokenError) -> TokenClaims.Organization {
        switch organization {
        case .fixed(let id): return .id(id)
        case .keys(let place): return .names(try keys(place))
        case .claim(let place):
            guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
            if form != .external, let id = value.uuid { return .id(id) }
            if form == .uuid { throw .malformedClaim(place.description, mustBe: Self.uuidForm) }
            return .names([try name(value, place)])
        }
    }

    /// The names of an object's members, or the texts of a list.
    ///
    /// These names are never interpreted as ids, because a provider's customers choose them. If the names could be ids,
    /// a customer could choose the id of another organization.
    private func keys(_ place: ClaimPlace) throws(TokenError) -> [ByteExactString] {
        guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
        let names: [String?]
        if let members = value.members {
            names = members.map(\.name.string)
        } else if let elements = value.elements {
            names = elements.map(\.string)
        } else {
            throw malformedKeys(place)
        }
        guard !names.isEmpty else { throw .missingClaim(place.description) }
        guard names.count <= IdentityPlaces.maximumNames else { throw malformedKeys(place) }
        var seen: Set<ByteExactString> = []
        var found: [ByteExactString] = []
        for name in names {
            guard let name, ExternalName.isValid(name) else { throw malformedKeys(place) }
            let text = ByteExactString(name)
            if seen.insert(text).inserted { found.append(text) }
        }
        return found
    }

    /// Reads the channels that the token grants: a text or a number, or a list of texts and numbers.
    ///
    /// A missing claim grants no channels.
    func channels(_ claim: ChannelClaim, issuedAt: Int64) throws(TokenError) -> TokenChannels {
        var names: [String] = []
        if let value = claims.value(at: claim.place.query), value.kind != .null {
            for name in value.elements.map(Array.init) ?? [value] {
                if let id = ServerID(json: name) {
                    names.append(claim.prefix + id.text)
                } else if name.string == nil {
                    throw .malformedClaim(claim.place.description, mustBe: "a text, or a list of texts")
                }
            }
        }
        return TokenChannels(names, claim.role, issuedAt: issuedAt)
    }

    private func name(_ value: JSONValue, _ place: ClaimPlace) throws(TokenError) -> ByteExactString {
        guard let name = value.string, ExternalName.isValid(name) else {
            throw .malformedClaim(place.description, mustBe: Self.nameForm)
        }
        return ByteExactString(name)
    }

    private func malformedKeys(_ place: ClaimPlace) -> TokenError {
        .malformedClaim(place.description, mustBe: Self.keysForm + Self.nameForm)
    }
}

/// The claims of a verified token. Only a verifier creates claims from a token.
package struct TokenClaims: Sendable, Hashable {
    /// The user, as the issuer identifies the user.
    package enum User: Sendable, Hashable {
        /// A user's own id.
        case id(UUID)
        /// The issuer's name of the user, 1 to 255 bytes without control characters.
        case subject(ByteExactString)
    }

    /// The organization for which the user acts, as the issuer identifies it.
    package enum Organization: Sendable, Hashable {
        /// An organization's own id.
        case id(UUID)
        /// The issuer's names of the organizations for which the user may act.
        ///
        /// There are 1 to ``IdentityPlaces/maximumNames`` names of 1 to 255 bytes, without duplicates.
        case names([ByteExactString])
    }

    /// The issuer as it is configured: ``TrustedIssuer/issuer``.
    package let issuer: ByteExactString?
    /// The namespace of the names: see ``TrustedIssuer/namespace``.
    package let namespace: ByteExactString
    package let organization: Organization
    package let user: User
    /// The organizations that the issuer's tokens may name. A name must refer to one of them, which is checked when the
    /// name is resolved. An organization's id has already been checked.
    package let covered: TrustedIssuer.Organizations
    /// When the token expires, in seconds since 1970.
    ///
    /// The token is accepted until this time plus the configured leeway.
    package let expiresAt: Int64
    /// The channels that the token grants; nil if the issuer's tokens do not decide about channels.
    package var channels: TokenChannels?
}

/// A token's header or payload: a JSON object with only one interpretation.
enum TokenObject {
    /// - Throws: `repeatedMember` if a name occurs twice, because some readers use the first value and others the last
    ///   value (RFC 7519, section 4). `malformed` for any other invalid text.
    static func parsing(_ json: [UInt8]) throws(TokenError) -> JSONValue {
        guard let tree = try? JSONTree(parsing: json), tree.root.kind == .object else { throw .malformed }
        let defects = tree.defects
        if defects.contains(where: { $0.kind == .duplicateMember }) { throw .repeatedMember }
        guard defects.isEmpty else { throw .malformed }
        return tree.root
    }
}

/// A token's parts, before any of them is trusted.
struct TokenText {
    /// The members of the header that decide how the token is verified.
    struct Header {
        let alg: String
        let kid: String?

        init(_ json: [UInt8]) throws(TokenError) {
            let members = try TokenObject.parsing(json)
            guard let alg = members["alg"]?.string else { throw .malformedHeader("alg", mustBe: "a text") }
            self.alg = alg
            kid = members["kid"]?.string
            if let kid = members["kid"], kid.kind != .string, !kid.isNull {
                throw .malformedHeader("kid", mustBe: "a text")
            }
            // `crit` lists extensions that a reader must support, and this reader supports no extensions
            if let critical = members["crit"], !critical.isNull {
                throw .malformedHeader("crit", mustBe: "absent: extensions are not supported")
            }
        }
    }

    let header: Header
    /// The header, a dot and the payload, as they were signed.
    let signed: ArraySlice<UInt8>
    let payload: [UInt8]
    let signature: [UInt8]

    init(_ bytes: [UInt8]) throws(TokenError) {
        let dots = bytes.indices.filter { bytes[$0] == UInt8(ascii: ".") }
        guard dots.count == 2,
            let header = Base64URL.decode(bytes[..<dots[0]]),
            let payload = Base64URL.decode(bytes[(dots[0] + 1)..<dots[1]]),
            let signature = Base64URL.decode(bytes[(dots[1] + 1)...])
        else { throw .malformed }
        self.header = try Header(header)
        self.signed = bytes[..<dots[1]]
        self.payload = payload
        self.signature = signature
    }
}
