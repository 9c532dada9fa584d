package import Foundation
import JSONText
package import SyncModel
package import Tokens

/// Which organization a request is for: the token's, or of several that it names the one that
/// `X-Sluice-Organization` names. The header never adds one.
package enum OrganizationChoice: Equatable {
    case id(UUID)
    /// The issuer's name for it.
    case name(ByteExactString)

    /// - Parameter chosen: the header: a name from the token, percent-encoded if it is not ASCII or has a `%`, or the
    ///   organization's id if the token contains ids.
    /// - Throws: `organization_unknown`, with the same text for everything that the token does not name.
    package init(of organization: TokenClaims.Organization, chosen: String?) throws(Problem) {
        switch organization {
        case .id(let id):
            if let chosen, UUID(parsing: chosen) != id { throw Problem.unknownOrganization }
            self = .id(id)
        case .names(let names):
            if let chosen {
                guard let name = ByteExactString(percentEncoded: chosen), names.contains(name) else {
                    throw Problem.unknownOrganization
                }
                self = .name(name)
            } else if let name = names.first, names.count == 1 {
                self = .name(name)
            } else {
                throw Problem(
                    .organizationUnknown,
                    "The token contains several organizations; choose one with X-Sluice-Organization."
                )
            }
        }
    }
}

extension Problem {
    /// The same whether there is no such organization, or the token's issuer does not speak for it, or it is going.
    package static var unknownOrganization: Problem {
        Problem(.organizationUnknown, "The organization of this token is unknown.")
    }
}
