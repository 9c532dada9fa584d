/// An issuer in force.
struct IssuerEntry: Sendable {
    /// As it was configured.
    let issuer: TrustedIssuer
    let rules: TokenRules
    /// Keys that the operator configured.
    let given: [TokenKey]
    /// Keys that the issuer publishes; nil where it publishes none.
    let remote: JWKSCache?
    /// The keys of both kinds.
    private(set) var keys: TokenKeySet

    init(_ issuer: TrustedIssuer, rules: TokenRules, given: [TokenKey], remote: JWKSCache?) {
        self.issuer = issuer
        self.rules = rules
        self.given = given
        self.remote = remote
        keys = TokenKeySet(given + (remote?.keys ?? []))
    }

    mutating func takeRemoteKeys() {
        keys = TokenKeySet(given + (remote?.keys ?? []))
    }
}
