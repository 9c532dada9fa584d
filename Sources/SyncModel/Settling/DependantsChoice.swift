/// How mutations that depend on a discarded one are treated (product rule 4).
public enum DependantsChoice: String, Sendable, Hashable, CaseIterable {
    /// They are discarded too, with their own dependants.
    case discard
    /// They stop depending on it; one that still needs an unresolved client id fails.
    case keep
}
