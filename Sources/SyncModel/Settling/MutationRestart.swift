public import Foundation

/// A mutation that is to run again.
public struct MutationRestart: Sendable {
    /// The mutation as it stood.
    public let record: MutationRecord
    /// What must succeed first; empty for one that runs when its turn comes.
    public var dependsOn: [UUID] = []
    /// One more than it was where the upstream is to take it for another request (product rule 6).
    public var revision: Int32
    /// Whether the last request of this revision may have taken effect.
    public var isOutcomeUnknown: Bool
    /// Another endpoint; nil: as it was.
    public var endpoint: Endpoint?
    /// Another payload, JSON; nil: as it was.
    public var payload: [UInt8]?
    /// Client ids of the user in the content; nil: as they were.
    public var references: [ClientReference]?
    /// The device's own ids that have to be found when the mutation's turn comes.
    public var localIDs: [LocalID] = []
    /// Set where a person lets the client win; then the conflict stays in the error.
    public var resolution: ConflictResolution?
    /// What is sent in place of the mutation's own request.
    public var sent: SentRequest?
    /// The entity that a create is to go over, whose id an answer need not tell again; nil: as it was.
    public var serverID: ServerID?

    /// `pending`, or `blocked` while it waits for another.
    public var status: MutationStatus? { record.status.moved(to: dependsOn.isEmpty ? .pending : .blocked) }
}
