package import SyncModel

/// What is to change of an entity type, or to be of a new one; what is nil stays, or is as at a type's first use.
package struct EntityTypeUpdate: Sendable {
    package var idSpace: IDSpace?
    package var visibility: Visibility?
    /// 0 to 1,000.
    package var defaultPriority: Int16?
    package var isForwarded: Bool?
    /// JSON text of the whole of them.
    package var relations: [UInt8]?

    package init() {}
}
