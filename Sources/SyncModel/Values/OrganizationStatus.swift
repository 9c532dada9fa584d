/// Whether an organization is served.
public enum OrganizationStatus: String, Sendable, Hashable, CaseIterable {
    case active
    case suspended
    /// Its data is being deleted; it never comes back.
    case purging
}
