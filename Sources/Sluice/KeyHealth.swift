import Tokens

/// What `/readyz` says of keys that are fetched.
struct KeyHealth {
    private let report: TokenVerifier.KeyReport

    init(_ verifier: TokenVerifier) {
        report = verifier.keyReport
    }

    /// Without any key nobody can be served.
    var reasons: [String] { report.isWithoutKeys ? missing : [] }

    /// Where others can be served, an issuer without keys is no reason to stop doing so.
    var notices: [String] { report.isWithoutKeys ? [] : missing }

    private var missing: [String] { report.missing.map { "the keys of \($0) have not been fetched yet" } }
}
