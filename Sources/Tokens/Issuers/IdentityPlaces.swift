package import FoundationEssentials
package import JSONText
package import SyncModel

/// The claims of an issuer's tokens that contain the user and the organization, and the forms of these claims.
package struct IdentityPlaces: Sendable, Equatable {
    /// The place of the organization.
    package enum Organization: Sendable, Equatable {
        /// A claim that contains the organization's name.
        case claim(ClaimPlace)
        /// A claim that names several organizations: an object whose members' names are the organizations' names, or a
        /// list of the organizations' names.
        case keys(ClaimPlace)
        /// No claim: all tokens are for this organization.
        case fixed(UUID)

        /// The name of the top-level claim that contains the organization's name.
        ///
        /// Nil if there is no such claim, or if the name is nested in another claim.
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

    /// The interpretation of the claim that contains the user.
    package enum UserForm: String, Sendable, CaseIterable {
        /// A UUID is the user's id. Any other text is mapped to an id.
        case either
        /// The claim must be a UUID.
        case uuid
        /// Every text is mapped to an id, even a UUID, because this issuer shares no users with other issuers.
        case mapped
    }

    /// The interpretation of the claim that contains the organization.
    package enum OrganizationForm: String, Sendable, CaseIterable {
        /// A UUID is the organization's id. Any other text is an external id.
        case either
        /// The claim must be a UUID.
        case uuid
        /// Every text is an external id, even a UUID.
        case external
    }

    /// The maximum number of organizations that a token may name.
    package static let maximumNames = 100

    package var user = ClaimPlace(named: "sub")
    package var organization = Organization.claim(ClaimPlace(named: "org"))
    package var userForm = UserForm.either
    package var organizationForm = OrganizationForm.either

    /// Creates the default places: `sub` for the user, and `org` for the organization.
    package init() {}

    /// Creates places with a claim that names the organization.
    package init(user: ClaimPlace, organization: ClaimPlace) {
        self.user = user
        self.organization = .claim(organization)
    }
}

/// The claim with the channels that an issuer grants to the users of its tokens.
package struct ChannelClaim: Sendable, Equatable {
    package var place: ClaimPlace
    /// The text that precedes each name from the claim, so that an issuer's groups are distinct from other channels.
    @Exact package var prefix: String
    package var role: ChannelRole

    package init(_ place: ClaimPlace, prefix: String = "", role: ChannelRole = .read) {
        self.place = place
        self.role = role
        self.prefix = prefix
    }
}

/// The place of a claim: the name of a member of the payload, or a path.
package struct ClaimPlace: Sendable {
    /// The query. A name, which may contain any characters, is a query with one step.
    package let query: SingularQuery
    /// The text that the operator wrote.
    package let description: String

    /// Creates the place of the payload's member with this name.
    package init(named name: String) { self.init(SingularQuery(member: name), name) }

    private init(_ query: SingularQuery, _ description: String) {
        self.query = query
        self.description = description
    }

    /// Reads a path that begins with `$.` or `$[` (``SingularQuery``), or a name.
    ///
    /// Any other text is a name, because earlier versions accepted only names in settings.
    package init(parsing text: String) throws(SingularQueryError) {
        guard !text.isEmpty else { throw SingularQueryError(place: 0, reason: "is empty") }
        guard text == "$" || text.hasPrefix("$.") || text.hasPrefix("$[") else {
            self.init(named: text)
            return
        }
        let query = try SingularQuery(text)
        if query.steps.isEmpty { throw SingularQueryError(place: 0, reason: "leads to the whole payload") }
        self.init(query, text)
    }

    /// The name, if the claim is a member of the payload itself.
    package var plainName: String? {
        if case .member(let name) = query.steps[0], query.steps.count == 1 { return name }
        return nil
    }
}

extension ClaimPlace: Hashable, CustomStringConvertible {
    /// Two places are equal if they select the same value, even if they are written differently.
    package static func == (left: ClaimPlace, right: ClaimPlace) -> Bool { left.query == right.query }

    package func hash(into hasher: inout Hasher) { hasher.combine(query) }
}
