package import SyncModel

/// An operator's complete description of a source.
package struct SourceUpdate: Sendable, Hashable {
    package let settings: SourceSettings
    package let isEnabled: Bool
    /// Nil: as it was.
    @Exact package private(set) var secret: String?

    package init(settings: SourceSettings, isEnabled: Bool = true, secret: String? = nil) {
        self.settings = settings
        self.isEnabled = isEnabled
        self.secret = secret
    }
}
