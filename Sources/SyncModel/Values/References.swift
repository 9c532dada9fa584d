public import Foundation

/// The client ids in a mutation's content, as its push or a person's edit decided.
///
/// Those to replace when its turn comes, and its own entity's unless it creates that. All other UUIDs in the content
/// are data.
public struct References: Sendable {
    public let ids: [UUID]
    /// The types in which these were created.
    ///
    /// Empty for mutations that were stored without types.
    public let types: [UUID: String]

    /// From the stored form; empty by default.
    public init(_ ids: [UUID] = [], types: [UUID: String] = [:]) {
        self.ids = ids
        self.types = types
    }

    init(_ references: [ClientReference]) {
        self.init(
            references.map(\.clientID),
            types: Dictionary(references.map { ($0.clientID, $0.entityType) }) { first, _ in first }
        )
    }
}
