/// Who sees the entities of a type.
public enum Visibility: String, Sendable, Hashable, CaseIterable {
    case organization
    /// The creator alone; to others the entity does not exist.
    case user
}
