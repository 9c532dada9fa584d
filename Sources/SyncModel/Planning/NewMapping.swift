/// A mapping to be stored.
public struct NewMapping: Sendable {
    public var mapping: IDMapping
    /// When the entity was created on the device.
    public var createdAt: Timestamp
    /// Whether the mapping replaces one whose create was discarded.
    public var replacesAbandoned = false
}
