package import ArgumentParser
package import CommandSupport
import HTTPTypes
package import ServiceLifecycle
package import SyncHTTP
package import SyncModel
package import SyncStore

/// Administration: organizations, their entity types and upstreams.
package struct AdministrationFeature: GatewayFeature {
    private let gateway: GatewayContext

    package static let tables = [
        StoredTable("readers", key: ["role_name"], purge: .last, isShown: true).plain("created_at")
    ]

    package static let commands: [any ParsableCommand.Type] = [
        OrganizationsCommand.self, UpstreamCommand.self, ChannelsCommand.self, AfterRestoreCommand.self,
    ]

    package init(_ gateway: GatewayContext) { self.gateway = gateway }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let (store, http) = (gateway.store, gateway.configuration)
        let organizations = OrganizationEndpoints(store: store, bodies: context.bodies)
        routes.read(at: "/admin/organizations", organizations.list)
        let organization = "/admin/organizations/{id}"
        routes.read(at: organization, organizations.read)
        routes.write("putOrganization", .put, organization, organizations.write)
        routes.write("deleteOrganization", .delete, organization, organizations.purge)
        let types = EntityTypeEndpoints(store: store, bodies: context.bodies)
        routes.read(at: organization + "/entity-types", types.list)
        let type = organization + "/entity-types/{name}"
        routes.read(at: type, types.read)
        routes.write("putEntityType", .put, type, types.write)
        let channels = ChannelEndpoints(store: store, bodies: context.bodies)
        routes.read(at: organization + "/channels", channels.read)
        let ofUser = organization + "/users/{user}/channels"
        routes.read(at: ofUser, channels.list)
        routes.write("grantChannel", .put, ofUser, channels.grant)
        routes.write("revokeChannel", .delete, ofUser, channels.revoke)
        let rules = UpstreamRules(canSign: http.canSign, leaseSeconds: http.leaseSeconds)
        let upstreams = UpstreamEndpoints(store: store, bodies: context.bodies, rules: rules)
        let upstream = organization + "/upstream"
        routes.read(at: upstream, upstreams.read)
        routes.write("putUpstream", .put, upstream, upstreams.write)
        routes.write("deleteUpstream", .delete, upstream, upstreams.remove)
        let probe = UpstreamProbeEndpoint(catalog: store.catalog, probes: http.probes, bodies: context.bodies)
        routes.write("testUpstream", .post, upstream + "/test", probe.send)
    }

    package var services: [any Service] { [BackoffEnder(gateway.store.administration, logger: gateway.logger)] }

    package static func removeDemo(
        _ tenant: DemoTenant,
        from administration: Administration
    ) async throws(Problem) { _ = try await administration.purge(tenant.organization) }

    package static func completeDemo(
        _ tenant: inout DemoTenant,
        in administration: Administration
    ) async throws(Problem) {
        guard let upstream = tenant.upstream else { return }
        _ = try await administration.putUpstream(of: tenant.organization, UpstreamUpdate(baseURL: upstream))
    }
}
