public import Foundation

/// The client ids that a mutation's content names, as its push or a person's edit decided: what is put in place when its
/// turn comes, and its own entity's unless it creates that. All else in the content is data.
public struct References: Sendable {
    /// The client ids.
    public let ids: [UUID]
    /// The types in which these were created. What was accepted before that was noted has none.
    public let types: [UUID: String]

    /// From the stored form, or of nothing.
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
