package import JSONText
package import SyncModel
import Synchronization

/// The findings of a verifier before its verdict about a token.
struct TokenFindings: Sendable {
    /// Nil: the token is malformed.
    var text: TokenText?
    /// The configured issuer that the token claims; nil if there is no such issuer.
    var entry: IssuerEntry?
    /// The key that signed it; nil: none that may.
    var key: TokenKey?
}

/// A verifier's verdict about a token, and its reasons, for `sluice token explain`.
package struct TokenExamination: Sendable {
    /// The key that made a signature.
    package struct Key: Sendable {
        package let id: String?
        package let algorithm: String
        /// Whether the issuer publishes it; otherwise it is configured.
        package let isPublished: Bool
    }

    private let findings: TokenFindings
    package let verdict: Result<TokenClaims, TokenError>
    /// Why the issuer's keys could not be fetched.
    package let fetchProblem: String?
    /// The payload, of unverified origin: do not trust it unless the verdict is good.
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
    /// The configured issuer that the token claims; nil if there is no such issuer.
    package var issuer: TrustedIssuer? { findings.entry?.issuer }
    /// Ids of the issuer's cached keys, without keys that have no id.
    package var knownKeys: [String] { findings.entry?.keys.keys.compactMap(\.id?.string) ?? [] }

    /// The algorithms of the issuer's cached keys, each once.
    package var knownAlgorithms: [String] {
        Set(findings.entry?.keys.keys.map(\.algorithm.rawValue) ?? []).sorted()
    }

    /// The key that signed it; nil: none that may.
    package var key: Key? {
        guard let key = findings.key, let entry = findings.entry else { return nil }
        let isGiven = entry.given.contains { $0.id == key.id && $0.algorithm == key.algorithm }
        return Key(id: key.id?.string, algorithm: key.algorithm.rawValue, isPublished: entry.remote != nil && !isGiven)
    }
}

extension TokenVerifier {
    /// Reports the verdict on a token, by the steps that decide it.
    ///
    /// Fetches the keys of its issuer for that; for verifiers without a ``JWKSRefresher``.
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
