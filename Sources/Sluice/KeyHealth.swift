import Tokens

/// What `/readyz` says of keys that are fetched.
struct KeyHealth {
    private let report: TokenVerifier.KeyReport

    init(_ verifier: TokenVerifier) {
        report = verifier.keyReport
    }

    /// While no key was ever there nobody can be served. Keys that were withdrawn are: everybody is refused.
    var reasons: [String] { isWaiting ? missing : [] }

    /// Where others can be served, an issuer without keys is no reason to stop doing so.
    var notices: [String] { (isWaiting ? [] : missing) + report.empty.map { "\($0) publishes no usable key" } }

    private var isWaiting: Bool { report.isWithoutKeys && report.empty.isEmpty }

    private var missing: [String] { report.missing.map { "the keys of \($0) have not been fetched yet" } }
}
