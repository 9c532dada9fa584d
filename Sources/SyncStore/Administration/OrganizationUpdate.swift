package import SyncModel

/// Changes an organization, or describes a new one.
///
/// Nil keeps a value, or gives it its default.
package struct OrganizationUpdate: Sendable {
    /// 1 to 200 characters.
    package var name: String?
    /// Not `purging`.
    package var status: OrganizationStatus?
    /// JSON text of the changed settings; null resets one to its default.
    package var settings: [UInt8]?
    /// Whether the settings turn users' own keys on.
    package var wantsUserKeys = false
    /// Its external names: all of them, each once.
    ///
    /// At most ``Administration/maximumExternalIDs``.
    package var externalIDs: [ExternalID]?

    package init(name: String? = nil, status: OrganizationStatus? = nil) {
        self.name = name
        self.status = status
    }
}
