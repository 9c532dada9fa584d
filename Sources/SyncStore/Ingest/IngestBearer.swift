package import Foundation
package import SyncModel

/// The authenticated sender of events.
package struct IngestBearer: Sendable, Hashable {
    package let organization: UUID
    package let tokenID: UUID
    @Exact package private(set) var source: String
    /// Whether it is time to record that the token is used.
    package let isFirstUse: Bool

    package init(organization: UUID, tokenID: UUID, source: String, isFirstUse: Bool) {
        self.organization = organization
        self.tokenID = tokenID
        self.source = source
        self.isFirstUse = isFirstUse
    }
}
