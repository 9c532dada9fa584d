package import FoundationEssentials

/// Where an issuer's tokens contain their user and organization, and in what forms.
package struct IdentityPlaces: Sendable, Equatable {
    /// The place of the organization.
    package enum Organization: Sendable, Equatable {
        /// A text.
        case claim(ClaimPlace)
        /// The names of an object's members, or a list of texts.
        case keys(ClaimPlace)
        /// Nowhere: all tokens are for this one.
        case fixed(UUID)

        /// The name of the one claim that is the organization's name.
        ///
        /// Nil if there is no such claim, or its place is deeper.
        package var claimName: String? {
            if case .claim(let place) = self { return place.plainName }
            return nil
        }

        /// The claim, if there is one.
        package var place: ClaimPlace? {
            switch self {
            case .claim(let place), .keys(let place): place
            case .fixed: nil
            }
        }
    }

    /// How a user's claim is interpreted.
    package enum UserForm: String, Sendable, CaseIterable {
        /// A UUID is the user's id; any other text is given one.
        case either
        /// It must be a UUID.
        case uuid
        /// Every text is given an id, UUIDs too: this issuer's users are only its own.
        case mapped
    }

    /// How an organization's claim is interpreted.
    package enum OrganizationForm: String, Sendable, CaseIterable {
        /// A UUID is the organization's id; any other text is an external id.
        case either
        /// It must be a UUID.
        case uuid
        /// Every text is an external id, UUIDs too.
        case external
    }

    /// Organizations that a token may name.
    package static let maximumNames = 100

    package var user = ClaimPlace(named: "sub")
    package var organization = Organization.claim(ClaimPlace(named: "org"))
    package var userForm = UserForm.either
    package var organizationForm = OrganizationForm.either

    /// The places in tokens with `sub` and `org`.
    package init() {}

    /// - Parameter organization: the claim's place.
    package init(user: ClaimPlace, organization: ClaimPlace) {
        self.user = user
        self.organization = .claim(organization)
    }
}
