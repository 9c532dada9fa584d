/// A mutation to be stored.
///
/// A class, since it is read column by column: a copy is one count.
public final class NewMutation: Sendable {
    public let mutation: Mutation
    public let record: MutationRecord
    /// Its own priority or its type's, 0 to 1,000.
    public let priority: Int16
    /// Its own strategy or the organization's.
    public let conflictResolution: ConflictResolution
    /// The client ids to replace when the mutation's turn comes.
    ///
    /// The user's client ids in endpoint and payload, and the entity's own unless this mutation creates it. Empty for a
    /// final mutation.
    public let references: [ClientReference]

    init(
        mutation: Mutation,
        record: MutationRecord,
        priority: Int16,
        conflictResolution: ConflictResolution,
        references: [ClientReference]
    ) {
        self.mutation = mutation
        self.record = record
        self.priority = priority
        self.conflictResolution = conflictResolution
        self.references = references
    }
}
