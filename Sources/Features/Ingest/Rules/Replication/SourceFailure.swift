import SyncModel

/// Why a source cannot be read: one or two sentences that instruct the operator, without a secret.
package struct SourceFailure: Error, Sendable, Hashable {
    package let userMessage: String
    /// Whether the fault persists until an operator changes something.
    package let isFatal: Bool

    package init(_ userMessage: String, isFatal: Bool = true) {
        self.userMessage = userMessage
        self.isFatal = isFatal
    }
}
