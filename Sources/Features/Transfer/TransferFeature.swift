package import ArgumentParser
import CommandSupport
package import SyncHTTP

/// Transfer: import and export of an organization's documents, by commands only.
package struct TransferFeature: GatewayFeature {
    package static let commands: [any ParsableCommand.Type] = [ImportCommand.self, ExportCommand.self]

    package init(_ gateway: GatewayContext) {}
}
