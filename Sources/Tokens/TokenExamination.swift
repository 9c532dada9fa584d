package import JSONText
package import SyncModel
import Synchronization

/// The facts about a token that a verifier determines before it accepts or refuses the token.
struct TokenFindings: Sendable {
    /// The token's parts; nil if the token is malformed.
    var text: TokenText?
    /// The configured issuer that the token names; nil if there is no such issuer.
    var entry: IssuerEntry?
    /// The key that signed the token; nil if no permitted key signed it.
    var key: TokenKey?
}

/// Whether a verifier accepts a token, and the facts that decide this, for `sluice token explain`.
package struct TokenExamination: Sendable {
    /// The key that made a signature.
    package struct Key: Sendable {
        package let id: String?
        package let algorithm: String
        /// Whether the issuer publishes the key. If not, the operator configured the key.
        package let isPublished: Bool
    }

    private let findings: TokenFindings
    /// The claims of an accepted token, or the reason why the token is refused.
    package let verdict: Result<TokenClaims, TokenError>
    /// The reason why the issuer's keys could not be fetched.
    package let fetchProblem: String?
    /// The payload. Trust it only if the token is accepted, because the payload of a refused token is not verified.
    package let payload: JSONValue?

    fileprivate init(_ findings: TokenFindings, _ verdict: Result<TokenClaims, TokenError>, fetchProblem: String?) {
        self.findings = findings
        self.verdict = verdict
        self.fetchProblem = fetchProblem
        payload = findings.text.flatMap { try? TokenPayload($0.payload).claims }
    }

    /// The algorithm in the token's header.
    package var algorithm: String? { findings.text?.header.alg }
    /// The key id in the token's header.
    package var keyID: String? { findings.text?.header.kid }
    /// The configured issuer that the token names; nil if there is no such issuer.
    package var issuer: TrustedIssuer? { findings.entry?.issuer }
    /// The ids of the issuer's cached keys. Keys without an id are omitted.
    package var knownKeys: [String] { findings.entry?.keys.keys.compactMap(\.id?.string) ?? [] }

    /// The algorithms of the issuer's cached keys, without duplicates.
    package var knownAlgorithms: [String] {
        Set(findings.entry?.keys.keys.map(\.algorithm.rawValue) ?? []).sorted()
    }

    /// The key that signed the token; nil if no permitted key signed it.
    package var key: Key? {
        guard let key = findings.key, let entry = findings.entry else { return nil }
        let isGiven = entry.given.contains { $0.id == key.id && $0.algorithm == key.algorithm }
        return Key(id: key.id?.string, algorithm: key.algorithm.rawValue, isPublished: entry.remote != nil && !isGiven)
    }
}

extension TokenVerifier {
    /// Returns whether a token is accepted, with the facts that decide this.
    ///
    /// If the issuer's published keys are not cached, this method fetches them. Use it with verifiers that have no
    /// ``JWKSRefresher``.
    package func examine(
        _ token: Substring,
        now: Timestamp,
        fetch: @escaping KeySetAnswer.Fetch
    ) async -> TokenExamination {
        var (findings, verdict) = judge(token, now: now)
        var problem: String?
        if case .failure(.keysUnavailable) = verdict, let remote = findings.entry?.remote,
            remote.begin(at: now) != nil
        {
            problem = await remote.finish(fetch(remote.url, nil), at: now).reason
            takeKeys(of: remote)
            (findings, verdict) = judge(token, now: now)
        }
        return TokenExamination(findings, verdict, fetchProblem: problem)
    }

    private func judge(_ token: Substring, now: Timestamp) -> (TokenFindings, Result<TokenClaims, TokenError>) {
        var findings = TokenFindings()
        let table = state.withLock { $0.table }
        do throws(Refused) {
            try Self.checkSize(of: token)
            let claims = try Self.decide(Array(token.utf8), table: table, now: now, &findings)
            return (findings, .success(claims))
        } catch {
            return (findings, .failure(error.reason))
        }
    }
}

/// The reason why a token is refused.
///
/// The response has the status 401, except for ``organizationNotCovered`` and ``keysUnavailable(retryAfter:)``.
package enum TokenError: Error, Sendable, Hashable {
    case missing
    /// The token does not consist of three base64url parts with the required JSON.
    case malformed
    /// The token is longer than ``TokenVerifier/maximumTokenBytes``.
    case tooLong
    /// An object of the token's header or payload repeats a name.
    ///
    /// Such an object is ambiguous: some readers use the first value, and others the last.
    case repeatedMember
    /// A parameter of the header is invalid. The second text describes the required form.
    case malformedHeader(String, mustBe: String)
    /// The signature was not made by a key that may sign this token.
    case badSignature
    /// `exp` has passed.
    case expired
    /// The time in a claim, usually `nbf`, is in the future.
    case notYetValid(claim: String)
    /// `iss` is not the configured issuer.
    case wrongIssuer
    /// The audience claim, usually `aud`, does not contain the configured audience.
    case wrongAudience(claim: String)
    /// A required claim is missing.
    case missingClaim(String)
    /// A claim's value has the wrong type or form. The second text describes the required form.
    case malformedClaim(String, mustBe: String)
    /// `kid` names a key that is not known. A newer key set may have it.
    case unknownKey
    /// `alg` is not accepted, is `none`, or is not the key's algorithm.
    case algorithmNotAllowed
    /// The issuer is not trusted for the organization that the token names.
    ///
    /// The response is 403, as for an organization that does not exist, so that callers do not learn which
    /// organizations exist.
    case organizationNotCovered
    /// The keys that could verify the token have never been fetched.
    ///
    /// The response is 503, with the seconds to wait before a retry.
    case keysUnavailable(retryAfter: Int)

    /// A sentence for the client, without keys and without values from the token.
    ///
    /// Claims are named as in the settings, and their values are never shown.
    package var explanation: String {
        switch self {
        case .missing: "A bearer token is required."
        case .malformed:
            "The token is malformed: it must have three base64url parts, of which the first two contain JSON objects."
        case .tooLong: "The token is longer than \(TokenVerifier.maximumTokenBytes) bytes."
        case .malformedHeader(let name, let form): "The token is malformed: `\(name)` of its header must be \(form)."
        case .repeatedMember: "The token is malformed: an object has a duplicate member."
        case .badSignature, .unknownKey: "The token's signature is not valid."
        case .expired: "The token has expired: claim `exp` is in the past."
        case .notYetValid(let name): "The token is not valid yet: claim `\(name)` is in the future."
        case .wrongIssuer: "The token's issuer is not accepted: claim `iss` is a different issuer."
        case .wrongAudience(let name):
            "The token is for another audience: claim `\(name)` does not contain the gateway's."
        case .missingClaim(let name): "Claim `\(name)` of the token is missing."
        case .malformedClaim(let name, let form): "Claim `\(name)` of the token must be \(form)."
        case .algorithmNotAllowed: "The token's algorithm is not accepted."
        case .organizationNotCovered: "The organization of this token is unknown."
        case .keysUnavailable: "The keys that verify this token cannot be fetched at present."
        }
    }
}
