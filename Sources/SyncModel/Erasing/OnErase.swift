/// What becomes of a type's documents when their owner is erased.
public enum OnErase: String, Sendable, Hashable, CaseIterable {
    /// They are deleted: phones see tombstones.
    case delete
    /// They stay, and are nobody's. Those that nobody else sees are deleted all the same.
    case blankOwner = "blank_owner"
}
