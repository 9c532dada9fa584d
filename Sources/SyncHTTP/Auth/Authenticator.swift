package import FoundationEssentials
package import HTTPTypes
package import SyncModel
package import SyncStore
package import Tokens

/// Determines a request's caller before its body is read.
package struct Authenticator: Sendable {
    package let verifier: TokenVerifier
    package let catalog: Catalog
    package let identities: Identities
    package let tokenGrants: TokenGrants
    package let quotas: QuotaGate
    package let now: TimeSource
    /// The interval at which the caller of a waiting request is checked again.
    package let checkInterval: Duration

    /// Returns the caller of a request that has a valid token of an active organization.
    package func caller(_ headers: HTTPFields) async throws -> Caller {
        let claims = try await claims(BearerToken.of(headers))
        let (id, name) = try await self.organization(of: claims, headers)
        let organization = try await activeOrganization(id)
        let named = try await self.user(of: claims, in: organization)
        let user = try await owner(of: named, in: organization)
        if let channels = claims.channels {
            let lane = LaneKey(organization: id, user: user)
            try await tokenGrants.apply(channels, to: lane, from: .issuer(claims.namespace, of: named))
        }
        let tokenContext = Caller.TokenContext(claims, name: name)
        return Caller(organization: organization, user: user, expiresAt: claims.expiresAt, tokenContext: tokenContext)
    }

    /// Returns the caller of a request if the cache contains all data about the caller.
    ///
    /// Returns nil if some of these data are not cached, if the token is invalid, or if the organization is not active
    /// or has quotas.
    package func cachedCaller(_ headers: HTTPFields) -> Caller? {
        guard let token = try? BearerToken.of(headers),
            let claims = verifier.knownClaims(token, now: now()),
            let (id, name) = cachedOrganization(of: claims, headers), let named = cachedUser(of: claims, in: id),
            let (organization, user) = catalog.cached(id, named),
            organization.status == .active, !organization.settings.hasQuota
        else { return nil }
        if organization.settings.provisioning == .explicit {
            guard catalog.isUserCached(LaneKey(organization: organization.id, user: user)) else { return nil }
        }
        if let channels = claims.channels {
            let lane = LaneKey(organization: id, user: user)
            guard tokenGrants.isApplied(channels, to: lane, from: .issuer(claims.namespace, of: named)) else {
                return nil
            }
        }
        let tokenContext = Caller.TokenContext(claims, name: name)
        return Caller(organization: organization, user: user, expiresAt: claims.expiresAt, tokenContext: tokenContext)
    }

    /// Whether the settings still accept the issuer of a caller's token for the organization.
    ///
    /// This method reads only the gateway's settings, not the data that operators write to the database.
    package func isStillAuthorized(_ caller: Caller) -> Bool {
        guard let tokenContext = caller.tokenContext else { return true }
        return verifier.stillAccepts(
            tokenContext.issuer,
            storedAs: tokenContext.namespace,
            for: caller.organization.id
        )
    }

    /// Returns an active organization from the catalog, which caches it for five seconds for all requests.
    ///
    /// - Throws: the reason why the organization is not served.
    @discardableResult
    package func activeOrganization(_ id: UUID) async throws(Problem) -> Organization {
        guard let organization = try await catalog.organization(id) else { throw Problem.unknownOrganization }
        switch organization.status {
        case .active: return organization
        case .suspended: throw Problem(.organizationSuspended, "The organization is suspended; contact its operator.")
        case .purging: throw Problem.unknownOrganization
        }
    }

    /// Returns the owner of a user's requests: for a joined user the target of the join, otherwise the user.
    ///
    /// - Throws: `user_unknown` if only operators provision users of the organization, and the owner is not
    ///   provisioned.
    package func owner(of user: UUID, in organization: Organization) async throws(Problem) -> UUID {
        let owner = try await catalog.owner(of: user, in: organization.id)
        if organization.settings.provisioning == .explicit {
            guard try await catalog.isUserKnown(owner, in: organization.id) else { throw Problem.unknownUser }
        }
        return owner
    }

    /// Checks whether the caller of a waiting request is still served. The wait calls this method at intervals.
    ///
    /// The issuer of the token must still be accepted for the organization. The organization must be active, and must
    /// still have the name that the token contains. The user must be provisioned. The user must not have been joined
    /// into another user, and no such join may be in progress.
    ///
    /// - Throws: the reason why the caller is not served. This is ``WaitEnded`` if the user was joined or is being
    ///   joined. Any other error with status 503 means that the check itself failed.
    private func checkServed(_ caller: Caller) async throws {
        guard isStillAuthorized(caller) else { throw Problem.unknownOrganization }
        if let name = caller.tokenContext?.name, try await identities.organization(name) != caller.organization.id {
            throw Problem.unknownOrganization
        }
        let organization = try await activeOrganization(caller.organization.id)
        guard try await catalog.isItself(caller.user, in: organization.id) else {
            throw WaitEnded(problem: .userIsJoining)
        }
        _ = try await owner(of: caller.user, in: organization)
    }

    /// Returns an endpoint for authenticated callers, within their organization's quota of requests.
    package func callers(
        only endpoint: @escaping @Sendable (Exchange, Caller) async throws -> Answer
    ) -> Route.Endpoint {
        { exchange in
            let caller = try await caller(exchange.headers)
            var exchange = exchange
            exchange.user = LaneKey(organization: caller.organization.id, user: caller.user)
            exchange.checkInterval = checkInterval
            try exchange.hold.assign(to: exchange.user)
            exchange.isStillServed = { try await checkServed(caller) }
            guard caller.organization.settings.hasQuota else { return try await endpoint(exchange, caller) }
            return try await quotas.answer(exchange, caller, by: endpoint)
        }
    }

    /// Returns a direct endpoint for callers in the cache.
    package func cachedCallers(
        only endpoint: @escaping @Sendable (DirectExchange, Caller) -> Bool
    ) -> Route.DirectEndpoint {
        { exchange in
            guard let caller = cachedCaller(exchange.headers) else { return false }
            var exchange = exchange
            exchange.user = LaneKey(organization: caller.organization.id, user: caller.user)
            return exchange.hold.tryAssign(to: exchange.user) && endpoint(exchange, caller)
        }
    }

    private func claims(_ token: Substring) async throws -> TokenClaims {
        do throws(TokenError) {
            return try await verified(token)
        } catch {
            switch error {
            case .organizationNotCovered:
                throw Problem.unknownOrganization
            case .keysUnavailable(let seconds):
                var problem = Problem(.keysUnavailable, error.explanation)
                problem.retryAfter = seconds
                throw problem
            default:
                throw BearerToken.refusal("invalid_token", error.explanation)
            }
        }
    }

    private func verified(_ token: Substring) async throws(TokenError) -> TokenClaims {
        let now = now()
        do throws(TokenError) {
            return try verifier.verify(token, now: now)
        } catch {
            guard error == .unknownKey else { throw error }
            return try await verifier.verifyOrFetch(token, now: now)
        }
    }
}

/// Resolves the organization and the user of a token.
extension Authenticator {
    /// Returns the organization of a request. If the token identifies it by a name, the result also contains the name.
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

    /// Returns the result of ``organization(of:_:)`` if the cache contains it; nil otherwise.
    package func cachedOrganization(of claims: TokenClaims, _ headers: HTTPFields) -> (id: UUID, name: ExternalID?)? {
        switch try? OrganizationChoice(of: claims.organization, chosen: headers[.sluiceOrganization]) {
        case nil: return nil
        case .id(let id): return (id, nil)
        case .name(let text):
            let name = ExternalID(issuer: claims.namespace, id: text)
            return identities.cachedOrganization(name).flatMap { claims.covered.covers($0) ? ($0, name) : nil }
        }
    }

    /// The user or subject of a token.
    package enum Bearer {
        case user(UUID)
        /// A subject that has no user yet. ``Authenticator/user(of:in:)`` creates the user.
        case newcomer(Subject)
    }

    /// Returns the user or subject of a token, and creates no user.
    ///
    /// - Throws: `user_unknown` for a reserved id, and for an id that Sluice created for a subject. A token must
    ///   identify such a user by the subject, not by the id. Also errors of ``Identities/user(_:in:)``.
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

    /// Returns the user of a token, and creates a user for a new subject.
    ///
    /// - Throws: errors of ``bearer(of:in:)`` and ``Identities/make(_:in:)``.
    package func user(of claims: TokenClaims, in organization: Organization) async throws(Problem) -> UUID {
        switch try await bearer(of: claims, in: organization) {
        case .user(let user): return user
        case .newcomer(let subject): return try await identities.make(subject, in: organization)
        }
    }

    /// Returns the user of a token if the cache contains the user; nil otherwise.
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
