/// Why a source cannot be read, for whoever is to mend it: one or two sentences that say what to do, without a secret.
public struct SourceTrouble: Error, Sendable, Hashable {
    public let words: String
    /// Whether it stays so until somebody changes something.
    public let isFatal: Bool

    public init(_ words: String, isFatal: Bool = true) {
        self.words = words
        self.isFatal = isFatal
    }
}
