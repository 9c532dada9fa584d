/// The accepted signature algorithms.
///
/// A key is for exactly one of them, by its own type. The token's header cannot change that, which prevents algorithm
/// confusion.
enum TokenAlgorithm: String, Sendable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
    case eddsa = "EdDSA"

    /// Whether a verifier cannot sign: only such keys are published.
    var isAsymmetric: Bool { self != .hs256 }
}
