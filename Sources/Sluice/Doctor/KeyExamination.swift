import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncUpstream
import Tokens

/// Checks whether tokens can be verified, and whether tokens for upstreams can be signed.
struct KeyExamination {
    let settings: Settings
    let reader: HTTPReader

    func diagnoses() async -> [Diagnosis] {
        [await verifier()] + exclusivity() + identities() + (await keySets()) + (await signer())
    }

    /// Reports issuers whose user claim is unsuitable, and organizations that two issuers share.
    private func identities() -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        let cautions = configuration.issuers.flatMap { ProviderCautions.of(IssuerSettings($0, configuration)) }
        return cautions + ProviderCautions.sharedOrganizations(configuration)
    }

    /// Checks configured keys. Published keys are checked separately.
    private func verifier() async -> Diagnosis {
        do throws(ConfigurationError) {
            _ = try await settings.tokenVerifier()
            let count = try settings.tokenConfiguration().issuers.count
            return .ok("keys", "all configured keys are usable" + (count == 1 ? "" : ", of \(count) issuers"))
        } catch {
            return .failed("keys", error.description, "Without a usable key, `sluice serve` does not start.")
        }
    }

    /// Reports public keys for whose tokens the issuer, the audience or both are not checked.
    ///
    /// The settings permit such keys because the operator declared that the keys are used only for this gateway.
    private func exclusivity() -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        let open = configuration.issuers.filter { issuer in
            (issuer.jwksURL != nil || !issuer.keys.isEmpty) && (issuer.issuer == nil || issuer.audience == nil)
        }
        guard !open.isEmpty else { return [] }
        return [
            .warning(
                "exclusive keys",
                "tokens of any issuer or audience are accepted with these keys, as set by "
                    + "\(Setting.jwtExclusiveKeys.variable) or "
                    + "exclusive_keys",
                "Only use it for a key that you created for this gateway. An identity provider's keys sign for its "
                    + "other "
                    + "customers too: set \(Setting.jwtIssuer.variable) and \(Setting.jwtAudience.variable) for them."
            )
        ]
    }

    private func keySets() async -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        var diagnoses: [Diagnosis] = []
        for url in Set(configuration.issuers.compactMap(\.jwksURL)).sorted() {
            diagnoses += await keySet(at: url)
        }
        return diagnoses
    }

    private func keySet(at url: String) async -> [Diagnosis] {
        let subject = "keys of \(KeySetURL.shown(url))"
        let advice =
            "Correct the URL, or check the provider. `sluice serve` starts without it, returns 503, and recovers."
        switch await reader.keySet(url, nil) {
        case .failed(let reason): return [.failed(subject, "cannot be fetched: \(reason)", advice)]
        case .unchanged: return [.failed(subject, "cannot be fetched: the response is empty", advice)]
        case .document(let text, _, _):
            let source = TokenKeySource(name: "the document", text: String(decoding: text, as: UTF8.self))
            do {
                let (usable, skipped) = try await source.examine()
                let others = skipped.isEmpty ? "" : "; not used: \(skipped.prefix(10).joined(separator: ", "))"
                let finding = "\(usable) usable\(others)"
                let isForgeable = KeySetURL.isOpenToForgery(url)
                if usable > 0 {
                    return [.ok(subject, finding)]
                        + (isForgeable
                            ? [.warning(subject + " (http)", "attackers can replace them", "Use https.")] : [])
                }
                return [.failed(subject, finding, "Use RS256, ES256 (P-256) or EdDSA (Ed25519) keys.")]
            } catch {
                return [.failed(subject, "cannot be used: \(error)", advice)]
            }
        }
    }

    private func signer() async -> [Diagnosis] {
        do throws(ConfigurationError) {
            guard try await settings.requestSigner() != nil else { return [] }
            return [.ok("signing key", "can be used")]
        } catch {
            return [.failed("signing key", error.description, "`sluice serve` does not start with it.")]
        }
    }
}

// MARK: - ProviderCautions

/// Warnings about identity providers whose tokens have the user in an unsuitable claim.
enum ProviderCautions {
    private static let entraHosts = [
        "login.microsoftonline.com", "sts.windows.net", "login.microsoftonline.us", "login.partner.microsoftonline.cn",
        ".ciamlogin.com",
    ]
    private static let oktaHosts = [".okta.com", ".oktapreview.com", ".okta-emea.com", ".okta-gov.com"]

    /// - Parameter payload: the payload of a token of the issuer, if there is one. If the issuer's URL has a customer's
    ///   own domain, only the claims of its tokens show the provider.
    static func of(_ settings: IssuerSettings, payload: JSONValue? = nil) -> [Diagnosis] {
        let issuer = settings.issuer
        let host = host(of: issuer.issuer?.string ?? payload?["iss"]?.string ?? "")
        let subject = "user claim of \(settings.name)"
        guard issuer.places.user == ClaimPlace(named: "sub") else { return [] }
        if isOne(host, of: entraHosts) || (payload?["oid"]?.uuid != nil && payload?["tid"]?.uuid != nil) {
            return [
                .warning(
                    subject,
                    "Entra ID's `sub` is pairwise: it differs between app registrations for the same person",
                    "Set \(settings.userClaim) to oid before its first user signs in."
                )
            ]
        }
        let isOktas = payload?["uid"]?.string?.hasPrefix("00u") == true && payload?["cid"]?.string != nil
        if isOne(host, of: oktaHosts) || isOktas {
            return [
                .warning(
                    subject,
                    "Okta's `sub` is the log-in name in access tokens: a user who changes it becomes a new user, and "
                        + "a person who "
                        + "gets it later becomes the old user",
                    "Set \(settings.userClaim) to uid before its first user signs in."
                )
            ]
        }
        return []
    }

    /// Returns a warning if two issuers share an organization, because the tokens of one issuer can then name the users
    /// of the other issuer.
    static func sharedOrganizations(_ configuration: TokenConfiguration) -> [Diagnosis] {
        let open = configuration.issuers.filter { $0.places.userForm != .mapped }
        for (index, issuer) in open.enumerated() {
            for other in open[(index + 1)...] where meet(issuer.organizations, other.organizations) {
                let names = [issuer, other].map { IssuerSettings($0, configuration).name }.joined(separator: " and ")
                return [
                    .warning(
                        "issuers that share organizations",
                        "\(names) issue tokens for one organization, and a UUID identifies the same user in the "
                            + "tokens of each",
                        "Correct if both have the same users. Otherwise set \"user_ids\": \"mapped\" for one of them "
                            + "before "
                            + "its first user signs in."
                    )
                ]
            }
        }
        return []
    }

    private static func meet(_ left: TrustedIssuer.Organizations, _ right: TrustedIssuer.Organizations) -> Bool {
        switch (left, right) {
        case (.any, _), (_, .any): true
        case (.only(let left), .only(let right)): !left.isDisjoint(with: right)
        }
    }

    private static func isOne(_ host: String, of hosts: [String]) -> Bool {
        hosts.contains { $0.hasPrefix(".") ? host.hasSuffix($0) : host == $0 }
    }

    private static func host(of issuer: String) -> String {
        let rest = issuer.range(of: "://").map { issuer[$0.upperBound...] } ?? issuer[...]
        return rest.before("/", ":").lowercased()
    }
}

/// The names of an issuer's settings in messages, with the place where they are set.
struct IssuerSettings {
    let issuer: TrustedIssuer
    /// Whether the issuer is configured by variables; false for an issuer in the file of issuers.
    let isOwn: Bool

    init(_ issuer: TrustedIssuer, _ configuration: TokenConfiguration) {
        self.issuer = issuer
        isOwn = issuer == configuration.own
    }

    /// The issuer's name in messages.
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
    var channelClaim: String { setting(.jwtChannelClaim, "channel_claim") }
    var jwksURL: String { setting(.jwtJWKSURL, "jwks_url") }
    var keysFile: String { setting(.jwtKeysFile, "keys_file") }
    var secret: String { setting(.jwtSecret, "secret_file") }
}
