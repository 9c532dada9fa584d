package import ArgumentParser
import CommandSupport
package import SyncHTTP
import SyncStore

/// Encryption at rest: data keys of organizations and users, their rotation, and sealing of stored rows.
package struct EncryptionFeature: GatewayFeature {
    private let gateway: GatewayContext

    package static let commands: [any ParsableCommand.Type] = [KeysCommand.self]

    package init(_ gateway: GatewayContext) { self.gateway = gateway }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        routes.read(at: "/admin/organizations/{id}/keys", KeyEndpoint(store: gateway.store).list)
    }
}
