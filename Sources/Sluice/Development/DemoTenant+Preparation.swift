import CommandSupport
import SyncModel
import SyncStore
import Tokens

extension DemoTenant {
    static let tokenSeconds: Int64 = 7 * 86_400

    /// Creates the missing tenants.
    ///
    /// The REST API stores its documents in memory. The next run cannot use the gateway's data about these documents,
    /// so each run creates the API's tenant again. Without the API, there is no such tenant.
    ///
    /// - Parameter upstream: the base URL of the API, if there is one.
    /// - Returns: the token with which the API reports its changes; nil if there is no API.
    static func prepare(_ settings: Settings, upstream: String?) async throws -> ServiceToken? {
        let store = settings.store(logger: .ofCommands())
        let administration = store.administration
        do throws(Problem) {
            var (builtIn, forwarded) = (builtIn, forwarded)
            try await builtIn.make(administration)
            for feature in InstalledFeatures.list { try await feature.removeDemo(forwarded, from: administration) }
            if let upstream {
                forwarded.upstream = upstream
                try await forwarded.make(administration)
            }
            await store.close()
            return forwarded.serviceToken
        } catch {
            await store.close()
            throw DevelopmentError("The demo organizations cannot be created: \(error.detail)")
        }
    }

    private mutating func make(_ administration: Administration) async throws(Problem) {
        if try await administration.organization(organization) == nil {
            _ = try await administration.put(organization, OrganizationUpdate(name: name))
        }
        for feature in InstalledFeatures.list { try await feature.completeDemo(&self, in: administration) }
    }

    func token(_ settings: Settings) async throws -> String {
        let issuer = try await TokenIssuer(configuration: try settings.tokenConfiguration())
        return try await issuer.issue(
            organization: organization,
            user: user,
            ttlSeconds: Self.tokenSeconds,
            now: SystemClock.now().seconds
        )
    }
}
