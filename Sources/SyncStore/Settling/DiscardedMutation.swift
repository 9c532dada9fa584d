package import Foundation

/// What giving a mutation up has come to.
package struct DiscardedMutation: Sendable {
    /// The mutation as it then is.
    package let mutation: MutationDetail
    /// All that this call discarded: the mutation, unless it was before, and dependants.
    package let ids: [UUID]
}
