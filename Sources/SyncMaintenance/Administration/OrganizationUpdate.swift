package import SyncModel

/// What is to change of an organization, or to be of a new one; what is nil stays, or has its default.
package struct OrganizationUpdate: Sendable {
    /// 1 to 200 characters.
    package var name: String?
    /// Not `purging`.
    package var status: OrganizationStatus?
    /// JSON text of the settings that are to change; null takes one back to its default.
    package var settings: [UInt8]?

    package init(name: String? = nil, status: OrganizationStatus? = nil) {
        self.name = name
        self.status = status
    }
}
