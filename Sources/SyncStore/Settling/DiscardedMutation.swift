package import Foundation

/// The result of a discard.
package struct DiscardedMutation: Sendable {
    /// The mutation after the discard.
    package let mutation: MutationDetail
    /// All mutations that this call discarded.
    ///
    /// Dependants, and the mutation, unless it was discarded before.
    package let ids: [UUID]
}
