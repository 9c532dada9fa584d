package import FoundationEssentials
package import JSONText

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

/// The place of a claim: the name of a payload's member, or a path.
///
/// Names are the older form of the settings.
package struct ClaimPlace: Sendable {
    /// A name, with any characters, is the query of one step.
    package let query: SingularQuery
    /// As the operator wrote it.
    package let description: String

    /// The member of the payload with that name.
    package init(named name: String) { self.init(SingularQuery(member: name), name) }

    private init(_ query: SingularQuery, _ description: String) {
        self.query = query
        self.description = description
    }

    /// Reads a path (``SingularQuery``), which begins with `$.` or `$[`, or a name.
    ///
    /// Any other text is taken for a name.
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

    /// The name, where it is a member of the payload itself.
    package var plainName: String? {
        if case .member(let name) = query.steps[0], query.steps.count == 1 { return name }
        return nil
    }
}

extension ClaimPlace: Hashable, CustomStringConvertible {
    /// Two places are one if they lead to the same value, however they are written.
    package static func == (left: ClaimPlace, right: ClaimPlace) -> Bool { left.query == right.query }

    package func hash(into hasher: inout Hasher) { hasher.combine(query) }
}
