/// What a lane does when one of its mutations fails or conflicts.
public enum FailurePolicy: String, Sendable, Hashable, CaseIterable {
    /// All mutations behind it wait for a person.
    case halt
    /// Only dependants wait.
    case `continue`
}
