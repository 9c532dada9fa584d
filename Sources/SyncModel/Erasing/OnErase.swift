/// How a type's documents are treated when their owner is erased.
public enum OnErase: String, Sendable, Hashable, CaseIterable {
    /// They are deleted: phones see tombstones.
    case delete
    /// They are kept without an owner. Those that no other user sees are deleted all the same.
    case blankOwner = "blank_owner"
}
