/// A mutation to be stored: what the client sent and how it stands.
///
/// A class, for it is read column by column: a copy is one count.
public final class NewMutation: Sendable {
    /// What the client sent.
    public let mutation: Mutation
    /// How it stands.
    public let record: MutationRecord
    /// Its own priority or its type's, 0 to 1,000.
    public let priority: Int16
    /// Its own strategy or the organization's.
    public let conflictResolution: ConflictResolution
    /// Client ids of the user that endpoint and payload name, and the entity's own unless this creates it: what is put
    /// in place when its turn comes. Empty for what is final.
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
