package import Foundation
package import HTTPTypes
package import SyncModel
package import SyncStore
package import Tokens

/// Resolves the organization and the user that a token names.
extension Authenticator {
    /// The organization that a request is for, and the name that it was found by, if it was one.
    ///
    /// - Throws: `organization_unknown`.
    package func organization(
        of claims: TokenClaims,
        _ headers: HTTPFields
    ) async throws(Problem) -> (id: UUID, name: ExternalID?) {
        switch try OrganizationChoice(of: claims.organization, chosen: headers[.sluiceOrganization]) {
        case .id(let id): return (id, nil)
        case .name(let text):
            let name = ExternalID(issuer: claims.namespace, id: text)
            guard let organization = try await identities.organization(name), claims.covered.covers(organization)
            else { throw Problem.unknownOrganization }
            return (organization, name)
        }
    }

    /// The same from memory alone; nil means unknown.
    package func cachedOrganization(of claims: TokenClaims, _ headers: HTTPFields) -> (id: UUID, name: ExternalID?)? {
        switch try? OrganizationChoice(of: claims.organization, chosen: headers[.sluiceOrganization]) {
        case nil: return nil
        case .id(let id): return (id, nil)
        case .name(let text):
            let name = ExternalID(issuer: claims.namespace, id: text)
            return identities.cachedOrganization(name).flatMap { claims.covered.covers($0) ? ($0, name) : nil }
        }
    }

    /// Who a token is for.
    package enum Bearer {
        case user(UUID)
        /// A subject without a user: the request that requires the user creates one.
        case newcomer(Subject)
    }

    /// Who a token is for; changes nothing.
    ///
    /// - Throws: `user_unknown` for a reserved id, and for an id that was created here for a subject. The latter
    ///   belongs to the user with that subject, and not to another issuer's token that contains it. Errors of
    ///   ``Identities/user(_:in:)``.
    package func bearer(of claims: TokenClaims, in organization: Organization) async throws(Problem) -> Bearer {
        switch claims.user {
        case .id(let user):
            guard !Writer.isReserved(user) else { throw Problem.unknownUser }
            guard try await !identities.isMade(LaneKey(organization: organization.id, user: user)) else {
                throw Problem.unknownUser
            }
            return .user(user)
        case .subject(let text):
            let subject = Subject(issuer: claims.namespace, text: text)
            return try await identities.user(subject, in: organization).map(Bearer.user) ?? .newcomer(subject)
        }
    }

    /// Returns the user of a token; creates one for a new subject.
    ///
    /// - Throws: what ``bearer(of:in:)`` and ``Identities/make(_:in:)`` throw.
    package func user(of claims: TokenClaims, in organization: Organization) async throws(Problem) -> UUID {
        switch try await bearer(of: claims, in: organization) {
        case .user(let user): return user
        case .newcomer(let subject): return try await identities.make(subject, in: organization)
        }
    }

    /// The same from memory alone; nil means unknown.
    package func cachedUser(of claims: TokenClaims, in organization: UUID) -> UUID? {
        switch claims.user {
        case .id(let user):
            if Writer.isReserved(user) { return nil }
            return identities.isCachedAsMade(LaneKey(organization: organization, user: user)) == false ? user : nil
        case .subject(let text):
            return identities.cachedUser(Subject(issuer: claims.namespace, text: text), in: organization)
        }
    }
}

extension Problem {
    package static var unknownUser: Problem {
        Problem(.userUnknown, "The user of this token is not registered with the organization.")
    }
}
