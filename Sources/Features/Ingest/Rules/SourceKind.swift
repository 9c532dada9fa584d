package import Foundation
package import SyncModel

/// How a source brings an organization's edits.
package enum SourceKind: String, Sendable, Hashable, CaseIterable {
    /// Its API sends webhooks to the gateway.
    case webhook
    /// The gateway asks its API for what changed.
    case poller
    /// The gateway reads its database's log.
    case postgres

    /// Whether a worker of the gateway fetches its data.
    package var isWorkedOn: Bool { self != .webhook }
}

/// A configured source of an organization.
package struct SourceKey: Sendable, Hashable, Comparable {
    package let organization: UUID
    /// `[a-z][a-z0-9_-]{0,63}`. Events of service tokens with this name are of the same source.
    @Exact package private(set) var name: String

    package init(organization: UUID, name: String) {
        self.organization = organization
        self.name = name
    }

    package static func < (left: SourceKey, right: SourceKey) -> Bool {
        (left.organization, left.name) < (right.organization, right.name)
    }
}
