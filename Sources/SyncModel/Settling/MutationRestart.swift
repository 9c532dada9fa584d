public import Foundation

/// A mutation to run again.
public struct MutationRestart: Sendable {
    /// The mutation before the change.
    public let record: MutationRecord
    /// Mutations that must succeed first; empty for one that runs when its turn comes.
    public var dependsOn: [UUID] = []
    /// Raised by one where the upstream must treat it as another request.
    ///
    /// Product rule 6.
    public var revision: Int32
    /// Whether the last request of this revision may have taken effect.
    public var isOutcomeUnknown: Bool
    /// A new endpoint; nil: unchanged.
    public var endpoint: Endpoint?
    /// A new payload, JSON; nil: unchanged.
    public var payload: [UInt8]?
    /// The user's client ids in the content; nil: unchanged.
    public var references: [ClientReference]?
    /// The device ids that must be found when the mutation's turn comes.
    public var localIDs: [LocalID] = []
    /// Set where a person lets the client win; then the error keeps the conflict.
    public var resolution: ConflictResolution?
    /// The request that is sent in place of the mutation's own.
    public var sent: SentRequest?
    /// The entity that a create overwrites; nil: unchanged.
    ///
    /// An answer need not repeat its id.
    public var serverID: ServerID?

    /// `pending`, or `blocked` while it waits for another.
    public var status: MutationStatus? { record.status.moved(to: dependsOn.isEmpty ? .pending : .blocked) }
}
