/// Why a token is refused.
///
/// Every case means 401, except the two with another status.
package enum TokenError: Error, Sendable, Hashable {
    case missing
    /// Not three base64url parts of JSON.
    case malformed
    /// Longer than ``TokenVerifier/maximumTokenBytes``.
    case tooLong
    /// An object of its header or payload repeats a name.
    ///
    /// One reader would take the first, another the last.
    case repeatedMember
    /// A parameter of its header is invalid; with a text of the required form.
    case malformedHeader(String, mustBe: String)
    /// No key that may speak for this token made its signature.
    case badSignature
    /// `exp` has passed.
    case expired
    /// The time in `nbf` has not come yet.
    case notYetValid
    /// `iss` is not the configured issuer.
    case wrongIssuer
    /// The audience claim, `aud` as a rule, does not contain the configured audience.
    case wrongAudience(claim: String)
    /// A required claim is missing.
    case missingClaim(String)
    /// A claim's value has the wrong type or form; with a text of the required form.
    case malformedClaim(String, mustBe: String)
    /// `kid` names a key that is not configured; a newer key set may have it.
    case unknownKey
    /// `alg` is not an accepted one, is `none`, or is not the one that the key is for.
    case algorithmNotAllowed
    /// The issuer is not trusted for the organization that the token names.
    ///
    /// To be answered (403) as if there were no such organization, so that callers do not learn which organizations
    /// exist.
    case organizationNotCovered
    /// The keys that could verify the token have never been fetched.
    ///
    /// 503, with the seconds to wait before a retry.
    case keysUnavailable(retryAfter: Int)

    /// A sentence for the client, without keys and without values from the token.
    ///
    /// Claims are named as in the settings, and their values are never shown.
    package var explanation: String {
        switch self {
        case .missing: "A bearer token is required."
        case .malformed: "The token is malformed: it is not three base64url parts, the first two JSON objects."
        case .tooLong: "The token is longer than \(TokenVerifier.maximumTokenBytes) bytes."
        case .malformedHeader(let name, let form): "The token is malformed: `\(name)` of its header must be \(form)."
        case .repeatedMember: "The token is malformed: an object has a duplicate member."
        case .badSignature, .unknownKey: "The token's signature is not valid."
        case .expired: "The token has expired: claim `exp` is in the past."
        case .notYetValid: "The token is not valid yet: claim `nbf` is in the future."
        case .wrongIssuer: "The token's issuer is not accepted: claim `iss` is a different issuer."
        case .wrongAudience(let name):
            "The token is for another audience: claim `\(name)` does not contain this one."
        case .missingClaim(let name): "Claim `\(name)` of the token is missing."
        case .malformedClaim(let name, let form): "Claim `\(name)` of the token must be \(form)."
        case .algorithmNotAllowed: "The token's algorithm is not accepted."
        case .organizationNotCovered: "The organization of this token is unknown."
        case .keysUnavailable: "The keys that verify this token cannot be fetched at present."
        }
    }
}
