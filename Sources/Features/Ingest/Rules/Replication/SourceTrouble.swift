import SyncModel

/// Why a source cannot be read, for whoever is to mend it: one or two sentences that say what to do, without a secret.
package struct SourceTrouble: Error, Sendable, Hashable {
    package let words: String
    /// Whether it stays so until somebody changes something.
    package let isFatal: Bool

    package init(_ words: String, isFatal: Bool = true) {
        self.words = words
        self.isFatal = isFatal
    }
}
