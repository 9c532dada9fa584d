import AdministrationFeature
import Foundation
import IngestFeature
import SyncModel
import SyncStore
import Tokens
import UsersFeature

/// An organization with one user to try things with. All ids are fixed, so that a command pasted twice does the same.
struct DemoTenant: Sendable {
    let name: String
    let organization: UUID
    let user: UUID

    static let tokenSeconds: Int64 = 7 * 86_400

    /// Its documents are in the built-in store.
    static let builtIn = DemoTenant(name: "Demo", organization: id(0xde_30, 0x01), user: id(0xde_30, 0x02))

    /// Its documents are in the demo's REST API.
    static let forwarded = DemoTenant(name: "Demo upstream", organization: id(0xde_40, 0x01), user: id(0xde_40, 0x02))

    /// Creates the missing tenants.
    ///
    /// The REST API keeps its documents in memory. The next run cannot use the gateway's data about them, so each run
    /// creates that tenant again. Without the API there is no such tenant.
    ///
    /// - Returns: the token with which the API reports its changes; nil without the API.
    static func prepare(_ settings: Settings, upstream: DemoUpstream?) async throws -> ServiceToken? {
        let store = Wiring.store(settings, logger: Wiring.commandLogger())
        let administration = store.administration
        do throws(Problem) {
            try await builtIn.make(administration)
            _ = try await administration.purge(forwarded.organization)
            var token: ServiceToken?
            if let upstream {
                try await forwarded.make(administration)
                let update = UpstreamUpdate(baseURL: "http://\(upstream.address)")
                _ = try await administration.putUpstream(of: forwarded.organization, update)
                token = try await administration.makeServiceToken(for: "demo", of: forwarded.organization)?.token
            }
            await store.close()
            return token
        } catch {
            await store.close()
            throw DevelopmentError("The demo organizations cannot be created: \(error.detail)")
        }
    }

    private func make(_ administration: Administration) async throws(Problem) {
        if try await administration.organization(organization) == nil {
            _ = try await administration.put(organization, OrganizationUpdate(name: name))
        }
        _ = try await administration.putUser(user, in: organization)
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

    /// A readable id of the demo: its kind, and its number.
    static func id(_ kind: UInt16, _ number: UInt8, version: UInt8 = 7) -> UUID {
        let (high, low) = (UInt8(kind >> 8), UInt8(kind & 0xff))
        return UUID(uuid: (1, 0x9b, 0xb0, 0, high, low, version << 4, 0, 0x80, 0, 0, 0, 0, 0, 0, number))
    }
}
