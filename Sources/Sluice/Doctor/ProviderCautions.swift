import CommandSupport
import Foundation
import JSONText
import SyncModel
import Tokens

/// Warnings about identity providers whose tokens have the user in an unsuitable claim.
enum ProviderCautions {
    private static let entraHosts = [
        "login.microsoftonline.com", "sts.windows.net", "login.microsoftonline.us", "login.partner.microsoftonline.cn",
        ".ciamlogin.com",
    ]
    private static let oktaHosts = [".okta.com", ".oktapreview.com", ".okta-emea.com", ".okta-gov.com"]

    /// - Parameter payload: of a token of the issuer, if there is one: a customer's own domain hides the provider,
    ///   which the tokens show.
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

    /// A warning for issuers that speak for one organization, and can sign in as each other's users.
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
