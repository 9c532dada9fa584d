package import Foundation
package import SyncModel

/// The part of an organization's feed that a listener subscribes to.
package struct FeedInterest: Sendable, Hashable {
    package var organization: UUID
    /// The reader: entities of `visibility: "user"` exist for their owner only.
    package var user: UUID
    /// Empty for all.
    package var entityTypes: Set<ByteExactString>

    package init(organization: UUID, user: UUID, entityTypes: Set<ByteExactString> = []) {
        self.organization = organization
        self.user = user
        self.entityTypes = entityTypes
    }
}
