/// What becomes of the mutations that depend on a discarded one (product rule 4).
public enum DependantsChoice: String, Sendable, Hashable, CaseIterable {
    /// They are discarded too, and what depends on them.
    case discard
    /// They depend on it no more; one that still needs an unresolved client id fails.
    case keep
}
