package import SyncModel

/// Changes an entity type, or describes a new one; nil keeps a value, or gives it the one of a type's first use.
package struct EntityTypeUpdate: Sendable {
    package var idSpace: IDSpace?
    package var visibility: Visibility?
    /// 0 to 1,000.
    package var defaultPriority: Int16?
    package var isForwarded: Bool?
    /// All relations as JSON text.
    package var relations: [UInt8]?
    package var onErase: OnErase?

    package init() {}
}
