import CommandSupport
import Tokens

/// The place of an issuer's settings.
struct IssuerSettings {
    let issuer: TrustedIssuer
    /// Whether it is the single one of the variables; otherwise it is one of the file.
    let isOwn: Bool

    init(_ issuer: TrustedIssuer, _ configuration: TokenConfiguration) {
        self.issuer = issuer
        isOwn = issuer == configuration.own
    }

    /// How the issuer is called in messages.
    var name: String { issuer.issuer.map { TerminalText.of($0) } ?? "the issuer without a name" }

    private func setting(_ own: Setting, _ member: String) -> String {
        isOwn ? own.variable : "its `\(member)` in \(Setting.jwtIssuersFile.variable)"
    }

    var issuerSetting: String { setting(.jwtIssuer, "issuer") }
    var audience: String { setting(.jwtAudience, "audience") }
    var audienceClaim: String { setting(.jwtAudienceClaim, "audience_claim") }
    var userClaim: String { setting(.jwtUserClaim, "user_claim") }
    var userIDs: String { setting(.jwtUserIDs, "user_ids") }
    var organizationClaim: String { setting(.jwtOrganizationClaim, "organization_claim") }
    var organizationKeys: String { setting(.jwtOrganizationKeys, "organization_keys") }
    var organizationIDs: String { setting(.jwtOrganizationIDs, "organization_ids") }
    var jwksURL: String { setting(.jwtJWKSURL, "jwks_url") }
    var keysFile: String { setting(.jwtKeysFile, "keys_file") }
    var secret: String { setting(.jwtSecret, "secret_file") }
}
