public import Foundation

/// One entry of a push: a valid mutation, or the errors in it.
///
/// A class, as ``Mutation`` is: entries are passed around a lot and never change.
public final class PushEntry: Sendable {
    /// The index in the request.
    public let index: Int
    // The entry's identity as far as it could be read, also of an invalid entry.
    /// The mutation's id, when it is a UUID.
    public let id: UUID?
    /// The idempotency key, when it is a UUID.
    public let idempotencyKey: UUID?
    /// The sequence number, when it is an integer of 1 or more.
    public let sequenceNumber: Int64?
    /// The entity that an invalid entry would have created.
    ///
    /// Entries that refer to it are refused as well.
    let attemptedCreate: ClientReference?
    /// The entry's content, valid or not; nil where it cannot be read. A refused entry may repeat a mutation that was
    /// accepted under other limits or rules (product rule 5).
    public let said: Mutation?
    /// `validation_failed` with every error; nil when the entry is valid.
    public let refusal: Problem?

    init(
        index: Int,
        id: UUID?,
        idempotencyKey: UUID?,
        sequenceNumber: Int64?,
        attemptedCreate: ClientReference?,
        said: Mutation?,
        refusal: Problem?
    ) {
        self.index = index
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.sequenceNumber = sequenceNumber
        self.attemptedCreate = attemptedCreate
        self.said = said
        self.refusal = refusal
    }

    public var mutation: Mutation? { refusal == nil ? said : nil }
}
