public import Foundation

/// A tenant.
public struct Organization: Sendable, Hashable {
    /// From the verified token.
    public var id: UUID
    /// For operators, 1 to 200 characters.
    @Exact public var name: String
    public var status: OrganizationStatus
    public var settings: OrganizationSettings
    /// Where mutations of forwarded types are sent.
    ///
    /// Nil when the organization has no upstream.
    public var upstream: UpstreamSettings?

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
