/// Whether entity types must be declared before use.
public enum EntityTypePolicy: String, Sendable, Hashable, CaseIterable {
    /// An unknown type is registered at its first use.
    case open
    /// An unknown type is refused (seed 000, `entity_type_valid_enum`).
    case registered
}
