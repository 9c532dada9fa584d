import SyncModel

/// Why a source cannot be read: one or two sentences that instruct the operator, without a secret.
package struct SourceFailure: Error, Sendable, Hashable {
    package let words: String
    /// Whether the fault persists until an operator changes something.
    package let isFatal: Bool

    package init(_ words: String, isFatal: Bool = true) {
        self.words = words
        self.isFatal = isFatal
    }
}
