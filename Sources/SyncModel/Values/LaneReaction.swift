/// What a lane does when one of its mutations fails or conflicts.
public enum LaneReaction: String, Sendable, Hashable, CaseIterable {
    /// Everything behind waits for a person.
    case halt
    /// Only dependants wait.
    case `continue`
}
