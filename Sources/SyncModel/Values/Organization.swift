public import Foundation

/// A tenant as every request sees it.
public struct Organization: Sendable, Hashable {
    /// The tenant's id, from the verified token.
    public var id: UUID
    /// For operators, 1 to 200 characters.
    public var name: String
    /// Whether it is served.
    public var status: OrganizationStatus
    /// What operators set.
    public var settings: OrganizationSettings
    /// Where mutations of forwarded types go; nil when the organization has no upstream.
    public var upstream: UpstreamSettings?

    /// Creates the value.
    public init(
        id: UUID,
        name: String,
        status: OrganizationStatus,
        settings: OrganizationSettings,
        upstream: UpstreamSettings? = nil
    ) {
        self.id = id
        self.name = name
        self.status = status
        self.settings = settings
        self.upstream = upstream
    }
}
