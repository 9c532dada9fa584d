/// A mapping to be stored.
public struct NewMapping: Sendable {
    /// What leads where.
    public var mapping: IDMapping
    /// When the entity was created on the device.
    public var createdAt: Timestamp
    /// Whether it takes the place of a mapping whose create was discarded.
    public var replacesAbandoned = false
}
