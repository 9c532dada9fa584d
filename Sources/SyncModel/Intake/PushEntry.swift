package import Foundation

/// One entry of a push: a valid mutation, or what is wrong with it.
package struct PushEntry: Sendable {
    /// Place in the request.
    package let index: Int
    // What could be read of the entry's identity, also when it is not valid.
    /// The mutation's id, when it is a UUID.
    package let id: UUID?
    /// The idempotency key, when it is a UUID.
    package let idempotencyKey: UUID?
    /// The sequence number, when it is an integer of 1 or more.
    package let sequenceNumber: Int64?
    /// What an entry that is not valid would have created: those who refer to it are refused with it.
    let attemptedCreate: ClientReference?
    /// What the entry says, valid or not; nil where that cannot be told. One that is refused may repeat a mutation that
    /// was taken under other limits or rules (product rule 5).
    package let said: Mutation?
    /// What refuses it: `validation_failed` with every error; nil when the entry is valid.
    package let refusal: Problem?

    /// The mutation, when the entry is valid.
    package var mutation: Mutation? { refusal == nil ? said : nil }
}
