public import Foundation

/// One entry of a push: a valid mutation, or what is wrong with it.
///
/// A class, as ``Mutation`` is: entries are passed around a lot and never change.
public final class PushEntry: Sendable {
    /// Place in the request.
    public let index: Int
    // What could be read of the entry's identity, also when it is not valid.
    /// The mutation's id, when it is a UUID.
    public let id: UUID?
    /// The idempotency key, when it is a UUID.
    public let idempotencyKey: UUID?
    /// The sequence number, when it is an integer of 1 or more.
    public let sequenceNumber: Int64?
    /// What an entry that is not valid would have created: those who refer to it are refused with it.
    let attemptedCreate: ClientReference?
    /// What the entry says, valid or not; nil where that cannot be told. One that is refused may repeat a mutation that
    /// was taken under other limits or rules (product rule 5).
    public let said: Mutation?
    /// What refuses it: `validation_failed` with every error; nil when the entry is valid.
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

    /// The mutation, when the entry is valid.
    public var mutation: Mutation? { refusal == nil ? said : nil }
}
